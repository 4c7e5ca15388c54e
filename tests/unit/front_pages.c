/* What the front shows people: the dashboard's page, and /v1/status, which that is filled from. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "tests/unit/front_rig.h"
#include "tests/unit/suite.h"

static const enum io_backend backends[] = {IO_URING, IO_EPOLL};
enum { N_BACKENDS = sizeof backends / sizeof *backends };

static struct rig rig;

static uint64_t number(yyjson_doc *doc, const char *pointer)
{
	yyjson_val *value = yyjson_doc_ptr_get(doc, pointer);
	ck_assert_msg(yyjson_is_uint(value), "%s is no number", pointer);
	return yyjson_get_uint(value);
}

static void check_text(yyjson_doc *doc, const char *pointer, const char *expected)
{
	const char *text = yyjson_get_str(yyjson_doc_ptr_get(doc, pointer));
	ck_assert_msg(text && strcmp(text, expected) == 0, "%s is %s, not %s", pointer, text ? text : "missing",
		      expected);
}

static yyjson_doc *ask_status(void)
{
	struct rig_answer answer = rig_ask(&rig, "GET", "/v1/status", NULL);
	ck_assert_int_eq(answer.status, 200);
	ck_assert(strstr(answer.head, "Content-Type: application/json\r\n") != NULL);
	yyjson_doc *doc = yyjson_read(answer.body, answer.n_body, 0);
	ck_assert_msg(doc != NULL, "no JSON: %s", answer.body);
	free(answer.body);
	return doc;
}

static void tell(uint32_t type, const void *message, size_t n_bytes)
{
	ck_assert_int_eq(message_send(rig.control, type, message, n_bytes, NULL, 0), 0);
}

static struct message_overview two_models(void)
{
	struct message_overview o = {.uptime_s = 77, .n_models = 3, .n_workers = 3, .n_copies = 2, .n_copies_more = 5};
	o.model[0] = (struct overview_model){.name = "small",
					     .architecture = "llama",
					     .standing = STANDING_SERVED,
					     .generation = 4,
					     .next_generation = 5,
					     .change = "loading",
					     .done_bytes = 10,
					     .total_bytes = 30};
	o.model[2] = (struct overview_model){.name = "a \"name\"", .standing = STANDING_COMES}; /* and one is free */
	o.copy[0] = (struct overview_copy){.small_bytes = 1,
					   .huge_bytes = 2,
					   .giant_bytes = 3,
					   .pages = 9,
					   .generation = 4,
					   .n_nodes = 1,
					   .verified = 1};
	o.copy[1] = (struct overview_copy){.node = 1, .n_nodes = 2, .adapter = 8, .misplaced = 7, .degraded = 1};
	o.worker[0] = (struct overview_worker){
		.is_there = 1, .shared_bytes = 4096, .generation = 4, .cpus = "0-3,8", .state = "ready"};
	o.worker[2] = (struct overview_worker){
		.is_there = 1, .model = 2, .node = 1, .restarts = 6, .restart_in_ms = 250, .state = "waiting"};
	return o;
}

START_TEST(status_has_what_the_parent_and_the_workers_tell)
{
	struct message_figures figures = {.n_workers = 3, .n_nodes = 1, .front_private_bytes = 11};
	struct message_overview overview = two_models();
	figures.worker_private_bytes[2] = 22;
	figures.worker_private_peak_bytes[2] = 33;
	figures.node[0] =
		(struct figures_node){.node = 0, .counted = 1, .counters = {.total_bytes = 44, .free_bytes = 5}};
	rig_serve(&rig, backends[_i], 8);
	__atomic_store_n(&channel_counters(&rig.worker[0])->running, 3, __ATOMIC_RELAXED);
	tell(MESSAGE_FIGURES, &figures, sizeof figures);
	tell(MESSAGE_OVERVIEW, &overview, sizeof overview);
	rig_worker_up(&rig, 1, "other"); /* and what was sent before has been read */
	yyjson_doc *doc = ask_status();
	const struct {
		const char *pointer;
		uint64_t expected;
	} numbers[] = {
		{"/uptime_s", 77},
		{"/calls_max", 8},
		{"/calls_in_flight", 0},
		{"/models/0/generation", 4},
		{"/models/0/change/generation", 5},
		{"/models/0/loaded_bytes", 10},
		{"/models/0/file_bytes", 30},
		{"/models/0/context_tokens", RIG_CONTEXT},
		{"/nodes/0/memory_bytes", 44},
		{"/nodes/0/free_bytes", 5},
		{"/copies/0/small_bytes", 1},
		{"/copies/0/huge_bytes", 2},
		{"/copies/0/giant_bytes", 3},
		{"/copies/0/pages", 9},
		{"/copies/1/misplaced", 7},
		{"/copies/1/adapter", 8},
		{"/copies/1/n_nodes", 2},
		{"/copies_left_out", 5},
		{"/workers/0/shared_bytes", 4096},
		{"/workers/0/running", 3},
		{"/workers/1/index", 2},
		{"/workers/1/restarts", 6},
		{"/workers/1/restart_in_ms", 250},
		{"/workers/1/private_bytes", 22},
		{"/workers/1/private_peak_bytes", 33},
		{"/front/private_bytes", 11},
	};
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		ck_assert_msg(number(doc, numbers[i].pointer) == numbers[i].expected, "%s is %llu", numbers[i].pointer,
			      (unsigned long long)number(doc, numbers[i].pointer));
	check_text(doc, "/version", PACKAGE_VERSION);
	check_text(doc, "/health/status", "ok");
	check_text(doc, "/models/0/standing", "served");
	check_text(doc, "/models/0/change/state", "loading");
	check_text(doc, "/models/1/name", "a \"name\"");
	check_text(doc, "/models/1/standing", "loading");
	check_text(doc, "/copies/0/state", "verified");
	check_text(doc, "/copies/1/state", "degraded");
	check_text(doc, "/workers/0/cpus", "0-3,8");
	check_text(doc, "/workers/1/state", "waiting");
	check_text(doc, "/workers/1/model", "a \"name\"");
	ck_assert_uint_eq(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/models")), 2);
	ck_assert_uint_eq(yyjson_arr_size(yyjson_doc_ptr_get(doc, "/workers")), 2);
	ck_assert_ptr_null(yyjson_doc_ptr_get(doc, "/workers/1/running")); /* there is no channel to read it from */
	yyjson_doc_free(doc);
	rig_stop(&rig);
}
END_TEST

START_TEST(status_of_a_front_that_was_told_nothing)
{
	rig_serve(&rig, backends[_i], 8);
	yyjson_doc *doc = ask_status();
	ck_assert_ptr_null(yyjson_doc_ptr_get(doc, "/told_ms_ago"));
	for (const char **key = (const char *[]){"/models", "/adapters", "/nodes", "/copies", "/workers", NULL}; *key;
	     key++) {
		yyjson_val *list = yyjson_doc_ptr_get(doc, *key);
		ck_assert_msg(yyjson_is_arr(list) && yyjson_arr_size(list) == 0, "%s", *key);
	}
	yyjson_doc_free(doc);
	rig_check(&rig, "POST", "/v1/status", "{}", 405, "GET, HEAD");
	rig_metric(&rig, "weightd_requests_total{path=\"/v1/status\",code=\"200\"} 1\n");
	rig_stop(&rig);
}
END_TEST

/* The parent is trusted to mean well, and not to be free of mistakes: none may become a read past an end. */
START_TEST(an_overview_with_an_index_that_is_none_ends_the_front)
{
	struct message_overview overview = two_models();
	rig_serve(&rig, backends[0], 8);
	switch (_i) {
	case 0:
		overview.n_models = OVERVIEW_MODELS_MAX + 1;
		break;
	case 1:
		overview.n_copies = OVERVIEW_COPIES_MAX + 1;
		break;
	case 2:
		overview.n_workers = OVERVIEW_WORKERS_MAX + 1;
		break;
	case 3:
		overview.copy[1].model = 3;
		break;
	default:
		overview.worker[2].model = 3;
	}
	tell(MESSAGE_OVERVIEW, &overview, sizeof overview);
	ck_assert_int_eq(rig_wait(&rig), 1);
	rig_fini(&rig);
}
END_TEST

/* Value of a header line of the answer, up to its end. */
static void header(const struct rig_answer *answer, const char *name, char *out, size_t size)
{
	const char *at = strstr(answer->head, name);
	ck_assert_msg(at != NULL, "no %s in: %s", name, answer->head);
	at += strlen(name);
	snprintf(out, size, "%.*s", (int)strcspn(at, "\r"), at);
}

static struct rig_answer ask_page(const char *method, const char *lines)
{
	char request[512];
	struct rig_client client = rig_connect(&rig);
	snprintf(request, sizeof request, "%s / HTTP/1.1\r\nHost: x\r\n%sConnection: close\r\n\r\n", method, lines);
	rig_send(&client, request);
	struct rig_answer answer = {0};
	if (strcmp(method, "HEAD") == 0) { /* which has the length of a body that does not come */
		rig_see(&client, "\r\n\r\n");
		snprintf(answer.head, sizeof answer.head, "%.*s", (int)client.n, client.bytes);
		ck_assert_str_eq(strstr(answer.head, "\r\n\r\n"), "\r\n\r\n");
		client.n = 0;
		ck_assert(rig_at_end(&client));
	} else {
		answer = rig_answer(&client);
	}
	rig_close(&client);
	return answer;
}

static void serve_page(enum io_backend io)
{
	struct message_serve order = rig_order(io, 8);
	order.dashboard = 1;
	rig_start(&rig, &order);
}

START_TEST(the_page_is_kept_by_browsers_until_it_changes)
{
	char etag[80], length[32], lines[160], other[80];
	serve_page(backends[_i]);
	struct rig_answer page = ask_page("GET", "");
	ck_assert_int_eq(page.status, 200);
	ck_assert(strstr(page.head, "Content-Type: text/html; charset=utf-8\r\n") != NULL);
	ck_assert(strstr(page.head, "Cache-Control: no-cache\r\n") != NULL);
	ck_assert(strstr(page.head, "Content-Security-Policy: default-src 'none'; ") != NULL);
	header(&page, "ETag: ", etag, sizeof etag);
	header(&page, "Content-Length: ", length, sizeof length);
	ck_assert_uint_eq(strtoul(length, NULL, 10), page.n_body);
	ck_assert_int_eq(strncmp(page.body, "<!doctype html>", 15), 0);
	ck_assert_str_eq(page.body + page.n_body - 8, "</html>\n");
	struct rig_answer head = ask_page("HEAD", "");
	ck_assert(strstr(head.head, length) != NULL && strstr(head.head, etag) != NULL);
	const char *const before[] = {"", "W/", "\"x\", ", "*"};
	for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
		snprintf(lines, sizeof lines, "If-None-Match: %s%s\r\n", before[i], *before[i] == '*' ? "" : etag);
		struct rig_answer none = ask_page("GET", lines);
		ck_assert_int_eq(none.status, 304);
		ck_assert_uint_eq(none.n_body, 0);
		ck_assert(strstr(none.head, "Content-Length") == NULL);
		header(&none, "ETag: ", other, sizeof other);
		ck_assert_str_eq(other, etag);
		free(none.body);
	}
	struct rig_answer again = ask_page("GET", "If-None-Match: \"0123456789\"\r\n");
	ck_assert_int_eq(again.status, 200);
	ck_assert_uint_eq(again.n_body, page.n_body);
	free(again.body);
	free(page.body);
	rig_metric(&rig, "weightd_requests_total{path=\"/\",code=\"304\"} 4\n");
	rig_stop(&rig);
}
END_TEST

START_TEST(the_page_is_there_only_where_it_is_wanted)
{
	serve_page(backends[_i]);
	rig_check(&rig, "POST", "/", "{}", 405, "GET, HEAD");
	rig_check(&rig, "GET", "/index.html", NULL, 404, "not_found");
	rig_stop(&rig);
	rig_serve(&rig, backends[_i], 8);
	rig_check(&rig, "GET", "/", NULL, 404, "not_found");
	rig_stop(&rig);
}
END_TEST

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	Suite *suite = suite_create("front_pages");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, status_has_what_the_parent_and_the_workers_tell, 0, N_BACKENDS);
	tcase_add_loop_test(tests, status_of_a_front_that_was_told_nothing, 0, N_BACKENDS);
	tcase_add_loop_test(tests, an_overview_with_an_index_that_is_none_ends_the_front, 0, 5);
	tcase_add_loop_test(tests, the_page_is_kept_by_browsers_until_it_changes, 0, N_BACKENDS);
	tcase_add_loop_test(tests, the_page_is_there_only_where_it_is_wanted, 0, N_BACKENDS);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
