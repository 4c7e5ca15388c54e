/* Threads on several nodes over a copy of the weights each: a model in as many real segments as there are copies. On a
 * machine with one node both lie there; with two (tests/guest) each has its own, and a thread's memory must be there,
 * too. */
#include "src/worker/worker_copies.h"

#include <check.h>
#include <errno.h>
#include <numaif.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "numa/bind.h"
#include "numa/topology.h"
#include "tests/unit/segment_rig.h"
#include "tests/unit/suite.h"
#include "tests/unit/tiny_model.h"

enum { COPIES = 2, CPUS_OF_COPY = 2, PROMPT = 40, TOKENS = 60 };

static struct message_part order[COPIES];
static unsigned n_nodes; /* that they are on */

/* The first nodes that have CPUs and memory, with some CPUs of each; a machine with one node is both. */
static void choose_nodes(void)
{
	struct topology *t = NULL;
	ck_assert_int_eq(topology_load(NULL, &t, NULL), 0);
	n_nodes = 0;
	for (unsigned i = 0; i < topology_n_nodes(t) && n_nodes < COPIES; i++) {
		const struct topology_node *node = topology_node(t, i);
		if (!node->memory_bytes || !node->may_bind_memory || idset_first(&node->cpus) < 0)
			continue;
		struct message_part *part = &order[n_nodes++];
		*part = (struct message_part){.node = node->os_index};
		for (int cpu = idset_first(&node->cpus); cpu >= 0 && idset_count(&part->cpus) < CPUS_OF_COPY;
		     cpu = idset_next(&node->cpus, cpu))
			idset_add(&part->cpus, (unsigned)cpu);
	}
	topology_free(t);
	ck_assert_uint_gt(n_nodes, 0);
	for (unsigned i = n_nodes; i < COPIES; i++)
		order[i] = order[0];
	for (unsigned i = 0; i < COPIES; i++)
		order[i].copy = i;
}

static void set_up(void)
{
	segment_rig_set_up();
	choose_nodes();
}

/* --- a model's image in a segment ------------------------------------------------------------- */

/* What a tensor of the llama family is in a model: one of the two. */
struct part {
	uint32_t role, layer;
	const struct matrix *matrix;
	const float *vector;
};

static uint32_t parts_of(const struct model *m, struct part *out)
{
	uint32_t n = 0;
	out[n++] = (struct part){IMAGE_TOKEN_EMBD, 0, &m->token_embd, NULL};
	out[n++] = (struct part){IMAGE_OUTPUT_NORM, 0, NULL, m->output_norm};
	for (uint32_t i = 0; i < m->config.n_layers; i++) {
		const struct model_layer *l = &m->layers[i];
		const struct part layer[] = {
			{IMAGE_ATTN_NORM, i, NULL, l->attn_norm},      {IMAGE_ATTN_Q, i, &l->attn_q, NULL},
			{IMAGE_ATTN_K, i, &l->attn_k, NULL},	       {IMAGE_ATTN_V, i, &l->attn_v, NULL},
			{IMAGE_ATTN_OUTPUT, i, &l->attn_output, NULL}, {IMAGE_FFN_NORM, i, NULL, l->ffn_norm},
			{IMAGE_FFN_GATE, i, &l->ffn_gate, NULL},       {IMAGE_FFN_UP, i, &l->ffn_up, NULL},
			{IMAGE_FFN_DOWN, i, &l->ffn_down, NULL},
		};
		memcpy(out + n, layer, sizeof layer);
		n += sizeof layer / sizeof *layer;
	}
	return n;
}

enum { PARTS_MAX = 64 };

/* Publishes a segment on `node` with the model in it; its descriptor returns owned. */
static int publish(const struct model *m, unsigned node)
{
	struct part parts[PARTS_MAX];
	struct image_tensor tensors[PARTS_MAX];
	struct image_header header;
	struct segment segment;
	struct segment_report report;
	struct err err = {""};
	uint32_t n = parts_of(m, parts);
	int fd = -1;
	for (uint32_t i = 0; i < n; i++) {
		const struct matrix vector = {NULL, PACK_F32, 1, m->config.dim},
				    *w = parts[i].matrix ? parts[i].matrix : &vector;
		tensors[i] = (struct image_tensor){.role = parts[i].role,
						   .layer = parts[i].layer,
						   .kind = w->kind,
						   .vector = !parts[i].matrix,
						   .rows = w->rows,
						   .cols = w->cols};
	}
	ck_assert_msg(!image_plan(&m->config, tensors, n, &(struct image_tables){0, 0, 0}, &header, &err), "%s",
		      err.text);
	struct segment_spec spec = segment_rig_spec(SEGMENT_MEMFD, header.image_bytes);
	spec.node = node;
	spec.pack_layout = IMAGE_VERSION;
	ck_assert_msg(!segment_create(&spec, &segment, &err), "%s", err.text);
	char *image = segment_payload(&segment);
	memcpy(image, &header, sizeof header);
	memcpy(image + header.tensors_offset, tensors, n * sizeof *tensors);
	for (uint32_t i = 0; i < n; i++)
		memcpy(image + tensors[i].offset, parts[i].matrix ? parts[i].matrix->data : parts[i].vector,
		       parts[i].matrix ? pack_matrix_bytes(tensors[i].kind, tensors[i].rows, tensors[i].cols)
				       : m->config.dim * sizeof(float));
	ck_assert_msg(!segment_publish(&segment, &fd, &report, &err), "%s", err.text);
	return fd;
}

static void attach(struct worker_copies *copies, const struct model *m)
{
	struct err err = {""};
	for (unsigned i = 0; i < COPIES; i++) {
		int fd = publish(m, order[i].node);
		ck_assert_msg(!worker_copies_add(copies, &order[i], fd, &err), "%s", err.text);
		close(fd);
	}
	ck_assert_msg(!worker_copies_open(copies, &err), "%s", err.text);
}

/* --- what threads are given ------------------------------------------------------------------- */

static bool is_within(const void *at, const struct segment_view *view)
{
	return (const char *)at >= (const char *)view->base &&
	       (const char *)at < (const char *)view->base + view->total_bytes;
}

START_TEST(threads_are_divided_in_the_order_of_copies)
{
	struct tiny_model *tiny = tiny_model_new(PACK_Q4_1, 42);
	struct worker_copies copies = {0};
	attach(&copies, &tiny->model);
	unsigned thread = 0;
	ck_assert_uint_eq(copies.n, COPIES);
	ck_assert_uint_eq(copies.n_threads, idset_count(&order[0].cpus) + idset_count(&order[1].cpus));
	for (unsigned i = 0; i < COPIES; i++)
		for (int cpu = idset_first(&order[i].cpus); cpu >= 0; cpu = idset_next(&order[i].cpus, cpu)) {
			const struct model *model = copies.models[thread];
			ck_assert_int_eq(copies.places[thread++].cpu, cpu);
			ck_assert(is_within(model->head.data, &copies.copies[i].segment));
			ck_assert(is_within(model->layers[2].ffn_down.data, &copies.copies[i].segment));
			ck_assert(is_within(model->layers[0].attn_norm, &copies.copies[i].segment));
		}
	worker_copies_fini(&copies);
	tiny_model_free(tiny);
}
END_TEST

START_TEST(parts_may_share_a_copy)
{
	struct tiny_model *tiny = tiny_model_new(PACK_Q4_1, 42);
	struct worker_copies copies = {0};
	struct message_part second = order[1];
	struct err err = {""};
	second.copy = 0;
	int fd = publish(&tiny->model, order[0].node);
	ck_assert_msg(!worker_copies_add(&copies, &order[0], fd, &err), "%s", err.text);
	ck_assert_msg(!worker_copies_add(&copies, &second, -1, &err), "%s", err.text);
	ck_assert_msg(!worker_copies_open(&copies, &err), "%s", err.text);
	close(fd);
	ck_assert_uint_eq(copies.n, 1);
	ck_assert_uint_eq(copies.n_threads, idset_count(&order[0].cpus) + idset_count(&second.cpus));
	for (unsigned i = 0; i < copies.n_threads; i++)
		ck_assert_ptr_eq(copies.models[i], &copies.copies[0].model);
	ck_assert_uint_eq(copies.places[copies.n_threads - 1].node, second.node);
	worker_copies_fini(&copies);
	tiny_model_free(tiny);
}
END_TEST

struct home {
	const struct worker_copies *copies;
	struct idset cpus[COPIES * CPUS_OF_COPY];
	int node_of_page[COPIES * CPUS_OF_COPY]; /* where a page lies that the thread touched first */
};

static void look_around(void *arg, unsigned thread)
{
	struct home *home = arg;
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || bind_thread_read(&home->cpus[thread], NULL))
		return;
	*page = 1;
	if (get_mempolicy(&home->node_of_page[thread], NULL, 0, page, MPOL_F_NODE | MPOL_F_ADDR))
		home->node_of_page[thread] = -errno;
	munmap(page, 4096);
}

START_TEST(a_thread_runs_and_allocates_where_its_copy_is)
{
	struct tiny_model *tiny = tiny_model_new(PACK_Q4_1, 42);
	struct worker_copies copies = {0};
	struct team *team;
	struct err err = {""};
	static struct home home;
	attach(&copies, &tiny->model);
	ck_assert_msg(!team_new(copies.n_threads, 0, worker_copies_start_thread, &copies, &team, &err), "%s", err.text);
	team_run(team, look_around, &home);
	for (unsigned i = 0; i < copies.n_threads; i++) {
		ck_assert_uint_eq(idset_count(&home.cpus[i]), 1);
		ck_assert_int_eq(idset_first(&home.cpus[i]), copies.places[i].cpu);
		ck_assert_int_eq(home.node_of_page[i], (int)order[copies.places[i].copy].node);
	}
	team_free(team);
	worker_copies_fini(&copies);
	tiny_model_free(tiny);
}
END_TEST

/* --- what they compute ------------------------------------------------------------------------ */

/* Logits behind each position of a sequence: the prompt in one pass, then token by token. */
static void compute(struct tiny_engine *e, float logits[TOKENS - PROMPT + 1][TINY_VOCAB])
{
	struct kv_sequence sequence = {0};
	struct batch_row rows[PROMPT];
	ck_assert_int_eq(kv_extend(&e->kv, &sequence, TOKENS), 0);
	for (uint32_t at = 0, n; at < TOKENS; at += n) {
		n = at ? 1 : PROMPT;
		struct batch batch = {at ? PHASE_DECODE : PHASE_PREFILL, n, rows};
		for (uint32_t i = 0; i < n; i++)
			rows[i] = (struct batch_row){
				.token = (at + i) * 7 % TINY_VOCAB, .position = at + i, .sequence = &sequence};
		ck_assert_int_eq(forward_run(e->forward, &batch), 0);
		uint32_t last = n - 1;
		memcpy(logits[at ? at - PROMPT + 1 : 0], forward_logits(e->forward, &last, 1), sizeof *logits);
		kv_advance(&sequence, n, batch.phase);
	}
	kv_release(&e->kv, &sequence);
}

START_TEST(several_nodes_say_what_one_says)
{
	static float alone[TOKENS - PROMPT + 1][TINY_VOCAB], together[TOKENS - PROMPT + 1][TINY_VOCAB];
	static const enum pack_kind kinds[] = {PACK_Q4_1, PACK_Q8_0, PACK_F32};
	struct tiny_model *tiny = tiny_model_new(kinds[_i], 42);
	struct worker_copies copies = {0};
	struct tiny_engine e;
	enum cpu_level level = kernels_detect();
	struct tiny_setup setup = {.level = level,
				   .numerics = kernels_numerics(level),
				   .n_threads = 1,
				   .prefill_chunk = PROMPT,
				   .max_running = 1,
				   .kv_pages = 8,
				   .context_tokens = 2 * TOKENS};
	tiny_engine_init(&e, tiny, &setup);
	compute(&e, alone);
	tiny_engine_fini(&e);

	attach(&copies, &tiny->model);
	setup.n_threads = copies.n_threads;
	setup.start = worker_copies_start_thread;
	setup.start_arg = &copies;
	setup.copies = copies.models;
	tiny_engine_init(&e, tiny, &setup);
	compute(&e, together);
	ck_assert_mem_eq(alone, together, sizeof alone);
	tiny_engine_fini(&e);
	worker_copies_fini(&copies);
	tiny_model_free(tiny);
}
END_TEST

/* --- refusals --------------------------------------------------------------------------------- */

START_TEST(copies_of_different_models_are_refused)
{
	struct tiny_model *one = tiny_model_new(PACK_Q4_1, 42), *other = tiny_model_new(PACK_Q4_1, 43);
	struct worker_copies copies = {0};
	struct err err = {""};
	int fds[COPIES] = {publish(&one->model, order[0].node), publish(&other->model, order[1].node)};
	for (unsigned i = 0; i < COPIES; i++) {
		ck_assert_int_eq(worker_copies_add(&copies, &order[i], fds[i], &err), 0);
		close(fds[i]);
	}
	ck_assert_int_eq(worker_copies_open(&copies, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "different models"));
	worker_copies_fini(&copies);
	tiny_model_free(one);
	tiny_model_free(other);
}
END_TEST

START_TEST(what_is_no_copy_or_has_no_cpu_is_refused)
{
	struct tiny_model *tiny = tiny_model_new(PACK_Q4_1, 42);
	struct worker_copies copies = {0};
	struct message_part nobody = {.node = order[0].node};
	struct err err = {""};
	int fd = publish(&tiny->model, order[0].node), empty = memfd_create("empty", MFD_CLOEXEC);
	ck_assert_int_eq(worker_copies_add(&copies, &nobody, fd, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "no CPU"));
	worker_copies_fini(&copies);
	ck_assert_int_lt(worker_copies_add(&copies, &order[0], empty, &err), 0);
	ck_assert_int_eq(worker_copies_add(&copies, &order[0], -1, &err), -EINVAL); /* it brings none */
	ck_assert_int_eq(worker_copies_add(&copies, &order[1], fd, &err), -EINVAL); /* which is the first? */
	ck_assert_uint_eq(copies.n, 0);
	ck_assert_uint_eq(copies.n_threads, 0);
	ck_assert_int_eq(worker_copies_add(&copies, &order[0], fd, &err), 0);
	ck_assert_int_eq(worker_copies_add(&copies, &order[0], fd, &err), -EINVAL); /* it was there */
	worker_copies_fini(&copies);						    /* half-built */
	close(fd);
	close(empty);
	tiny_model_free(tiny);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("worker_copies");
	TCase *tc = tcase_create("worker_copies");
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, set_up, segment_rig_tear_down);
	tcase_add_test(tc, threads_are_divided_in_the_order_of_copies);
	tcase_add_test(tc, parts_may_share_a_copy);
	tcase_add_test(tc, a_thread_runs_and_allocates_where_its_copy_is);
	tcase_add_loop_test(tc, several_nodes_say_what_one_says, 0, 3);
	tcase_add_test(tc, copies_of_different_models_are_refused);
	tcase_add_test(tc, what_is_no_copy_or_has_no_cpu_is_refused);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
