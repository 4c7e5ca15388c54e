#include "src/front/metrics_nodes.h"

#include <stddef.h>

#include "src/front/metrics_text.h"

enum { SAMPLES_MAX = 6 };

/* A family, and the samples that each node has of it. */
struct family {
	const char *name, *type, *help;
	struct sample {
		const char *labels; /* behind the node's */
		size_t offset;	    /* of a uint64_t in struct figures_node */
	} samples[SAMPLES_MAX];
};

#define OF(field) offsetof(struct figures_node, field)

static const struct family of_weights[] = {
	{"weightd_weight_pages",
	 "gauge",
	 "Pages of the node's weights, by where the kernel says that they are.",
	 {{"placement=\"on_node\"", OF(on_node)},
	  {"placement=\"misplaced\"", OF(misplaced)},
	  {"placement=\"absent\"", OF(absent)},
	  {"placement=\"unknown\"", OF(unknown)}}},
	{"weightd_weight_page_bytes",
	 "gauge",
	 "Bytes of the node's weights, by the size of the pages that they are in, as the kernel counts them.",
	 {{"page=\"4k\"", OF(small_bytes)}, {"page=\"2m\"", OF(huge_bytes)}, {"page=\"1g\"", OF(giant_bytes)}}},
};

static const struct family of_machine[] = {
	{"weightd_numa_pages_total",
	 "counter",
	 "Pages that any program took on the node since the machine started, by the kernel's own counters.",
	 {{"counter=\"numa_hit\"", OF(counters.hit)},
	  {"counter=\"numa_miss\"", OF(counters.miss)},
	  {"counter=\"numa_foreign\"", OF(counters.foreign)},
	  {"counter=\"interleave_hit\"", OF(counters.interleave_hit)},
	  {"counter=\"local_node\"", OF(counters.local)},
	  {"counter=\"other_node\"", OF(counters.other)}}},
	{"weightd_node_memory_bytes",
	 "gauge",
	 "Memory of the node, and what of it nobody uses, not even as page cache.",
	 {{"state=\"total\"", OF(counters.total_bytes)}, {"state=\"free\"", OF(counters.free_bytes)}}},
	{"weightd_node_huge_pages",
	 "gauge",
	 "Pages in the node's pools of huge pages (hugetlb).",
	 {{"page=\"2m\",state=\"total\"", OF(counters.pool[NODE_POOL_2M].pages)},
	  {"page=\"2m\",state=\"free\"", OF(counters.pool[NODE_POOL_2M].free_pages)},
	  {"page=\"1g\",state=\"total\"", OF(counters.pool[NODE_POOL_1G].pages)},
	  {"page=\"1g\",state=\"free\"", OF(counters.pool[NODE_POOL_1G].free_pages)}}},
};

static bool has_weights(const struct figures_node *node)
{
	return node->n_copies > 0;
}

static bool is_counted(const struct figures_node *node)
{
	return node->counted != 0;
}

static void write_families(const struct message_figures *figures, const struct family *families, size_t n_families,
			   bool (*has)(const struct figures_node *node), struct api_json *out)
{
	for (const struct family *f = families; f < families + n_families; f++) {
		metrics_text_family(out, f->name, f->type, f->help);
		for (uint32_t i = 0; i < figures->n_nodes; i++) {
			const struct figures_node *node = &figures->node[i];
			if (!has(node))
				continue;
			for (const struct sample *k = f->samples; k < f->samples + SAMPLES_MAX && k->labels; k++) {
				const uint64_t *value = (const uint64_t *)((const char *)node + k->offset);
				api_json_format(out, "%s{node=\"%u\",%s} %llu\n", f->name, node->node, k->labels,
						(unsigned long long)*value);
			}
		}
	}
}

static void write_proof(const struct message_figures *figures, uint64_t now_ns, struct api_json *out)
{
	const struct figures_node *end = figures->node + figures->n_nodes;
	metrics_text_family(out, "weightd_weight_placement_verified", "gauge",
			    "1: the kernel confirmed that every page of the node's weights is on it, and refused "
			    "nothing that keeps it there.");
	for (const struct figures_node *n = figures->node; n < end; n++)
		if (has_weights(n))
			api_json_format(out, "weightd_weight_placement_verified{node=\"%u\"} %d\n", n->node,
					n->verified != 0);
	metrics_text_family(out, "weightd_weight_degraded_copies", "gauge",
			    "Copies on the node of which pages are known to be on other nodes.");
	for (const struct figures_node *n = figures->node; n < end; n++)
		if (has_weights(n))
			api_json_format(out, "weightd_weight_degraded_copies{node=\"%u\"} %u\n", n->node, n->degraded);
	metrics_text_family(out, "weightd_weight_check_age_seconds", "gauge",
			    "Since the kernel was last asked about all pages; weightctl status asks again.");
	for (const struct figures_node *n = figures->node; n < end; n++)
		if (has_weights(n))
			api_json_format(out, "weightd_weight_check_age_seconds{node=\"%u\"} %.3f\n", n->node,
					now_ns > n->checked_ns ? (double)(now_ns - n->checked_ns) / 1e9 : 0);
	metrics_text_family(
		out, "weightd_weight_unlocked_bytes", "gauge",
		"Bytes of the node's weights that no worker has locked, so that they could be swapped out.");
	for (const struct figures_node *n = figures->node; n < end; n++)
		if (has_weights(n))
			api_json_format(out, "weightd_weight_unlocked_bytes{node=\"%u\"} %llu\n", n->node,
					(unsigned long long)n->unlocked_bytes);
}

void metrics_nodes_write(const struct message_figures *figures, uint64_t now_ns, struct api_json *out)
{
	write_families(figures, of_weights, sizeof of_weights / sizeof *of_weights, has_weights, out);
	write_proof(figures, now_ns, out);
	write_families(figures, of_machine, sizeof of_machine / sizeof *of_machine, is_counted, out);
}
