/* /metrics as text: labels of any bytes, buckets, sums, and that a call is counted once whatever happens to it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/front/fleet.h"
#include "src/front/metrics_aliases.h"
#include "src/front/metrics_figures.h"
#include "src/front/metrics_model.h"
#include "src/front/metrics_text.h"
#include "tests/unit/suite.h"

#define MS UINT64_C(1000000)

static struct fleet fleet;
static struct api_json out;

static void setup(void)
{
	fleet = (struct fleet){.n_models = 1};
	snprintf(fleet.model[0].name, sizeof fleet.model[0].name, "m");
	out = (struct api_json){0};
}

static void teardown(void)
{
	api_json_fini(&out);
}

/* The text so far has this line. */
static void has(const char *line)
{
	api_json_raw(&out, "", 1); /* terminates */
	ck_assert(!out.failed);
	ck_assert_msg(strstr(out.bytes, line) != NULL, "the text has no line %s", line);
	out.n--;
}

START_TEST(a_label_is_escaped)
{
	metrics_text_label(&out, "a\"b\\c\nd\xc3\xa9");
	has("a\\\"b\\\\c\\nd\xc3\xa9");
	snprintf(fleet.model[0].name, sizeof fleet.model[0].name, "x\"y\nz");
	metrics_model_write(&fleet, &out);
	has("\nweightd_generated_tokens_total{model=\"x\\\"y\\nz\"} 0\n");
	metrics_aliases_write(&fleet, &out);
	has("\nvllm:generation_tokens_total{model_name=\"x\\\"y\\nz\",engine=\"0\"} 0\n");
}
END_TEST

START_TEST(a_bound_belongs_to_its_bucket)
{
	struct metrics_histogram *h = &fleet.model[0].metrics.gap;
	metrics_observe(h, METRICS_SECONDS, 0);
	metrics_observe(h, METRICS_SECONDS, 1 * MS);
	metrics_observe(h, METRICS_SECONDS, 1 * MS + 1);
	metrics_observe(h, METRICS_SECONDS, 320001 * MS);
	metrics_model_write(&fleet, &out);
	has("weightd_inter_token_seconds_bucket{model=\"m\",le=\"0.001\"} 2\n");
	has("weightd_inter_token_seconds_bucket{model=\"m\",le=\"0.0025\"} 3\n");
	has("weightd_inter_token_seconds_bucket{model=\"m\",le=\"320\"} 3\n");
	has("weightd_inter_token_seconds_bucket{model=\"m\",le=\"+Inf\"} 4\n");
	has("weightd_inter_token_seconds_sum{model=\"m\"} 320.003000001\n");
	has("weightd_inter_token_seconds_count{model=\"m\"} 4\n");
}
END_TEST

START_TEST(a_call_leaves_its_times)
{
	struct metrics_model *m = &fleet.model[0].metrics;
	struct metrics_call call = {.request_ns = 100 * MS};
	metrics_call_computing(m, &call, 130 * MS);
	metrics_call_token(m, &call, 7, 200 * MS);
	metrics_call_token(m, &call, 7, 210 * MS);
	metrics_call_token(m, &call, 7, 240 * MS);
	ck_assert_uint_eq(m->generated_tokens, 3); /* before it ends */
	ck_assert_uint_eq(m->prompt_tokens, 7);
	metrics_call_ended(m, &call, METRICS_END_STOP, 7, 3);
	ck_assert_uint_eq(m->generated_tokens, 3);
	ck_assert_uint_eq(m->prompt_tokens, 7);
	ck_assert_uint_eq(m->queue.sum, 30 * MS);
	ck_assert_uint_eq(m->prefill.sum, 70 * MS);
	ck_assert_uint_eq(m->gap.sum, 40 * MS);
	ck_assert_uint_eq(m->decode.sum, 40 * MS);
	ck_assert_uint_eq(m->computing.sum, 110 * MS);
	ck_assert_uint_eq(m->token_mean.sum, 20 * MS);
	ck_assert_uint_eq(m->prompt.sum, 7);
	ck_assert_uint_eq(m->answer.sum, 3);
	ck_assert_uint_eq(m->ended[METRICS_END_STOP], 1);
}
END_TEST

START_TEST(a_call_without_tokens_counts_too)
{
	struct metrics_model *m = &fleet.model[0].metrics;
	struct metrics_call scored = {.request_ns = 1}, gone = {.request_ns = 1}, unsaid = {.request_ns = 1};
	metrics_call_ended(m, &scored, METRICS_END_LENGTH, 5, 0); /* max_tokens 0: no first token, so no decode */
	ck_assert_uint_eq(m->decode.bucket[0], 0);
	ck_assert_uint_eq(m->prompt_tokens, 5);
	metrics_call_ended(m, &gone, METRICS_END_ABORT, 9, 0);
	ck_assert_uint_eq(m->prompt_tokens, 14);
	ck_assert_uint_eq(m->prompt.sum, 5); /* sizes are of calls that ended well */
	metrics_call_ended(m, &unsaid, METRICS_END_LENGTH, 1,
			   4); /* its worker reported no tokens, and says there were */
	ck_assert_uint_eq(m->generated_tokens, 4);
	metrics_model_write(&fleet, &out);
	has("weightd_calls_ended_total{model=\"m\",reason=\"length\"} 2\n");
	has("weightd_calls_ended_total{model=\"m\",reason=\"abort\"} 1\n");
	has("weightd_calls_ended_total{model=\"m\",reason=\"error\"} 0\n");
}
END_TEST

START_TEST(one_page_elsewhere_is_not_verified)
{
	struct message_figures figures = {
		.n_nodes = 3,
		.node = {{.node = 0, .verified = 1, .n_copies = 1, .pages = 10, .on_node = 10},
			 {.node = 2, .n_copies = 1, .pages = 10, .on_node = 9, .misplaced = 1},
			 {.node = 5, .n_copies = 1}},
	};
	figures.node[0].checked_ns = 1000 * MS;
	metrics_figures_write(&figures, 3500 * MS, &out);
	has("weightd_weight_placement_verified{node=\"0\"} 1\n");
	has("weightd_weight_placement_verified{node=\"2\"} 0\n");
	has("weightd_weight_placement_verified{node=\"5\"} 0\n");
	has("weightd_weight_pages{node=\"2\",placement=\"misplaced\"} 1\n");
	has("weightd_weight_check_age_seconds{node=\"0\"} 2.500\n");
}
END_TEST

START_TEST(a_node_has_what_is_known_of_it_and_no_more)
{
	struct message_figures figures = {
		.n_nodes = 2,
		.node = {{.node = 1,
			  .n_copies = 2,
			  .small_bytes = 4096,
			  .huge_bytes = 4 << 20,
			  .giant_bytes = 1 << 30,
			  .unlocked_bytes = 77},
			 {.node = 3,
			  .counted = 1,
			  .counters = {.hit = 1,
				       .miss = 2,
				       .foreign = 3,
				       .interleave_hit = 4,
				       .local = 5,
				       .other = 6,
				       .total_bytes = 70,
				       .free_bytes = 7,
				       .pool = {{9, 8}, {11, 10}}}}},
	};
	metrics_figures_write(&figures, 0, &out);
	has("weightd_weight_page_bytes{node=\"1\",page=\"4k\"} 4096\n");
	has("weightd_weight_page_bytes{node=\"1\",page=\"2m\"} 4194304\n");
	has("weightd_weight_page_bytes{node=\"1\",page=\"1g\"} 1073741824\n");
	has("weightd_weight_unlocked_bytes{node=\"1\"} 77\n");
	has("weightd_numa_pages_total{node=\"3\",counter=\"numa_hit\"} 1\n");
	has("weightd_numa_pages_total{node=\"3\",counter=\"numa_miss\"} 2\n");
	has("weightd_numa_pages_total{node=\"3\",counter=\"numa_foreign\"} 3\n");
	has("weightd_numa_pages_total{node=\"3\",counter=\"interleave_hit\"} 4\n");
	has("weightd_numa_pages_total{node=\"3\",counter=\"local_node\"} 5\n");
	has("weightd_numa_pages_total{node=\"3\",counter=\"other_node\"} 6\n");
	has("weightd_node_memory_bytes{node=\"3\",state=\"free\"} 7\n");
	has("weightd_node_huge_pages{node=\"3\",page=\"2m\",state=\"total\"} 9\n");
	has("weightd_node_huge_pages{node=\"3\",page=\"2m\",state=\"free\"} 8\n");
	has("weightd_node_huge_pages{node=\"3\",page=\"1g\",state=\"total\"} 11\n");
	has("weightd_node_huge_pages{node=\"3\",page=\"1g\",state=\"free\"} 10\n");
	/* Node 3 has no weights, and the kernel said nothing of node 1. */
	ck_assert_ptr_null(strstr(out.bytes, "weightd_weight_placement_verified{node=\"3\"}"));
	ck_assert_ptr_null(strstr(out.bytes, "weightd_weight_unlocked_bytes{node=\"3\"}"));
	ck_assert_ptr_null(strstr(out.bytes, "weightd_node_memory_bytes{node=\"1\""));
}
END_TEST

START_TEST(a_worker_has_its_node)
{
	struct message_figures figures = {.n_workers = 2,
					  .worker_private_bytes = {4096, 8192},
					  .worker_private_peak_bytes = {5, 16384},
					  .worker_cpu_ns = {0, 1500 * MS},
					  .worker_node = {0, 3},
					  .front_cpu_ns = 20 * MS};
	metrics_figures_write(&figures, 0, &out);
	has("weightd_private_bytes{process=\"worker\",worker=\"0\",node=\"0\"} 4096\n");
	has("weightd_private_bytes{process=\"worker\",worker=\"1\",node=\"3\"} 8192\n");
	has("weightd_private_peak_bytes{process=\"worker\",worker=\"1\",node=\"3\"} 16384\n");
	has("weightd_cpu_seconds_total{process=\"worker\",worker=\"1\",node=\"3\"} 1.500\n");
	has("weightd_cpu_seconds_total{process=\"front\"} 0.020\n");
}
END_TEST

START_TEST(figures_past_their_arrays_are_refused)
{
	struct message_figures figures = {.n_nodes = 64, .n_workers = 256};
	ck_assert(metrics_figures_valid(&figures));
	figures.n_nodes = 65;
	ck_assert(!metrics_figures_valid(&figures));
	figures = (struct message_figures){.n_workers = 257};
	ck_assert(!metrics_figures_valid(&figures));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("metrics");
	TCase *all = tcase_create("all");
	tcase_add_checked_fixture(all, setup, teardown);
	tcase_add_test(all, a_label_is_escaped);
	tcase_add_test(all, a_bound_belongs_to_its_bucket);
	tcase_add_test(all, a_call_leaves_its_times);
	tcase_add_test(all, a_call_without_tokens_counts_too);
	tcase_add_test(all, one_page_elsewhere_is_not_verified);
	tcase_add_test(all, a_node_has_what_is_known_of_it_and_no_more);
	tcase_add_test(all, a_worker_has_its_node);
	tcase_add_test(all, figures_past_their_arrays_are_refused);
	suite_add_tcase(suite, all);
	return suite_run(suite);
}
