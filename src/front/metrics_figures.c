#include "src/front/metrics_figures.h"

#include "src/front/metrics_nodes.h"
#include "src/front/metrics_text.h"

bool metrics_figures_valid(const struct message_figures *figures)
{
	return figures->n_nodes <= sizeof figures->node / sizeof *figures->node &&
	       figures->n_workers <= sizeof figures->worker_private_bytes / sizeof *figures->worker_private_bytes &&
	       figures->n_audio <= sizeof figures->audio_cpu_ns / sizeof *figures->audio_cpu_ns;
}

/* A family's samples of the parent and the front, then of each worker up to its value and a newline. */
static void write_process(struct api_json *out, const char *name, const char *process)
{
	api_json_format(out, "%s{process=\"%s\"} ", name, process);
}

static void write_worker(struct api_json *out, const char *name, const struct message_figures *figures, uint32_t i)
{
	api_json_format(out, "%s{process=\"worker\",worker=\"%u\",node=\"%u\"} ", name, i, figures->worker_node[i]);
}

static void write_audio(struct api_json *out, const char *name, uint32_t i)
{
	api_json_format(out, "%s{process=\"audio\",worker=\"%u\"} ", name, i);
}

static void write_memory(struct api_json *out, const char *name, const char *help,
			 const struct message_figures *figures, uint64_t parent, uint64_t front,
			 const uint64_t *workers, const uint64_t *audio)
{
	metrics_text_family(out, name, "gauge", help);
	write_process(out, name, "parent");
	api_json_format(out, "%llu\n", (unsigned long long)parent);
	write_process(out, name, "front");
	api_json_format(out, "%llu\n", (unsigned long long)front);
	for (uint32_t i = 0; i < figures->n_workers; i++) {
		write_worker(out, name, figures, i);
		api_json_format(out, "%llu\n", (unsigned long long)workers[i]);
	}
	for (uint32_t i = 0; i < figures->n_audio; i++) {
		write_audio(out, name, i);
		api_json_format(out, "%llu\n", (unsigned long long)audio[i]);
	}
}

static void write_cpu(struct api_json *out, const struct message_figures *figures)
{
	static const char name[] = "weightd_cpu_seconds_total";
	metrics_text_family(out, name, "counter",
			    "CPU time of the process, and of those that had its place before it.");
	write_process(out, name, "parent");
	api_json_format(out, "%.3f\n", (double)figures->parent_cpu_ns / 1e9);
	write_process(out, name, "front");
	api_json_format(out, "%.3f\n", (double)figures->front_cpu_ns / 1e9);
	for (uint32_t i = 0; i < figures->n_workers; i++) {
		write_worker(out, name, figures, i);
		api_json_format(out, "%.3f\n", (double)figures->worker_cpu_ns[i] / 1e9);
	}
	for (uint32_t i = 0; i < figures->n_audio; i++) {
		write_audio(out, name, i);
		api_json_format(out, "%.3f\n", (double)figures->audio_cpu_ns[i] / 1e9);
	}
}

static void write_gone(struct api_json *out, const struct message_figures *figures)
{
	static const char name[] = "weightd_worker_cpus_gone";
	metrics_text_family(
		out, name, "gauge",
		"CPUs of the worker that are offline or out of the cpuset: its threads share what is left.");
	for (uint32_t i = 0; i < figures->n_workers; i++)
		api_json_format(out, "%s{worker=\"%u\",node=\"%u\"} %u\n", name, i, figures->worker_node[i],
				figures->worker_cpus_gone[i]);
}

void metrics_figures_write(const struct message_figures *figures, uint64_t now_ns, struct api_json *out)
{
	write_memory(out, "weightd_private_bytes",
		     "Memory of the process that it shares with none: anonymous pages and page tables.", figures,
		     figures->parent_private_bytes, figures->front_private_bytes, figures->worker_private_bytes,
		     figures->audio_private_bytes);
	write_memory(out, "weightd_private_peak_bytes", "The most of it that was ever seen.", figures,
		     figures->parent_private_peak_bytes, figures->front_private_peak_bytes,
		     figures->worker_private_peak_bytes, figures->audio_private_peak_bytes);
	write_cpu(out, figures);
	write_gone(out, figures);
	metrics_nodes_write(figures, now_ns, out);
	metrics_text_single(out, "weightd_weight_sampled_pages_total", "counter",
			    "Pages of weights that samples asked the kernel about.", figures->sampled_pages);
	metrics_text_single(out, "weightd_weight_sampled_misplaced_total", "counter",
			    "Of these, pages that were on another node.", figures->sampled_misplaced);
	metrics_text_single(out, "weightd_front_restarts_total", "counter", "Fronts replaced since the daemon started.",
			    figures->front_restarts);
	metrics_text_single(out, "weightd_audio_restarts_total", "counter",
			    "Processes that decode audio, replaced since the daemon started.", figures->audio_restarts);
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
