#include "src/front/metrics_figures.h"

#include "src/front/metrics_text.h"

bool metrics_figures_valid(const struct message_figures *figures)
{
	return figures->n_nodes <= sizeof figures->node / sizeof *figures->node &&
	       figures->n_workers <= sizeof figures->worker_private_bytes / sizeof *figures->worker_private_bytes;
}

static void write_memory(struct api_json *out, const char *name, const char *help, uint64_t parent, uint64_t front,
			 const uint64_t *workers, uint32_t n_workers)
{
	metrics_text_family(out, name, "gauge", help);
	api_json_format(out, "%s{process=\"parent\"} %llu\n", name, (unsigned long long)parent);
	api_json_format(out, "%s{process=\"front\"} %llu\n", name, (unsigned long long)front);
	for (uint32_t i = 0; i < n_workers; i++)
		api_json_format(out, "%s{process=\"worker\",worker=\"%u\"} %llu\n", name, i,
				(unsigned long long)workers[i]);
}

static void write_pages(const struct message_figures *figures, struct api_json *out)
{
	metrics_text_family(out, "weightd_weight_pages", "gauge",
			    "Pages of the node's weights, by where the kernel says that they are.");
	for (uint32_t i = 0; i < figures->n_nodes; i++) {
		const struct figures_node *n = &figures->node[i];
		const struct {
			const char *placement;
			uint64_t pages;
		} pages[] = {{"on_node", n->on_node},
			     {"misplaced", n->misplaced},
			     {"absent", n->absent},
			     {"unknown", n->unknown}};
		for (size_t k = 0; k < sizeof pages / sizeof *pages; k++)
			api_json_format(out, "weightd_weight_pages{node=\"%u\",placement=\"%s\"} %llu\n", n->node,
					pages[k].placement, (unsigned long long)pages[k].pages);
	}
}

static void write_placement(const struct message_figures *figures, uint64_t now_ns, struct api_json *out)
{
	write_pages(figures, out);
	metrics_text_family(out, "weightd_weight_placement_verified", "gauge",
			    "1: the kernel confirmed that every page of the node's weights is on it.");
	for (uint32_t i = 0; i < figures->n_nodes; i++)
		api_json_format(out, "weightd_weight_placement_verified{node=\"%u\"} %d\n", figures->node[i].node,
				figures->node[i].pages && figures->node[i].on_node == figures->node[i].pages);
	metrics_text_family(out, "weightd_weight_check_age_seconds", "gauge",
			    "Since the kernel was last asked; weightctl status asks again.");
	for (uint32_t i = 0; i < figures->n_nodes; i++) {
		uint64_t checked_ns = figures->node[i].checked_ns;
		api_json_format(out, "weightd_weight_check_age_seconds{node=\"%u\"} %.3f\n", figures->node[i].node,
				now_ns > checked_ns ? (double)(now_ns - checked_ns) / 1e9 : 0);
	}
}

void metrics_figures_write(const struct message_figures *figures, uint64_t now_ns, struct api_json *out)
{
	write_memory(out, "weightd_private_bytes",
		     "Memory of the process that it shares with none: anonymous pages and page tables.",
		     figures->parent_private_bytes, figures->front_private_bytes, figures->worker_private_bytes,
		     figures->n_workers);
	write_memory(out, "weightd_private_peak_bytes", "The most of it that was ever seen.",
		     figures->parent_private_peak_bytes, figures->front_private_peak_bytes,
		     figures->worker_private_peak_bytes, figures->n_workers);
	write_placement(figures, now_ns, out);
	metrics_text_single(out, "weightd_front_restarts_total", "counter", "Fronts replaced since the daemon started.",
			    figures->front_restarts);
	metrics_text_family(out, "weightd_hang_kills_total", "counter",
			    "Processes killed because they made no progress.");
	const struct {
		const char *process;
		uint64_t n;
	} hangs[] = {
		{"worker", figures->worker_hangs}, {"front", figures->front_hangs}, {"other", figures->other_hangs}};
	for (size_t i = 0; i < sizeof hangs / sizeof *hangs; i++)
		api_json_format(out, "weightd_hang_kills_total{process=\"%s\"} %llu\n", hangs[i].process,
				(unsigned long long)hangs[i].n);
}
