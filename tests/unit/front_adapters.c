/* Adapters in the front: which bytes a name leads to, and that the parent is told when the last call of some has ended.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/clock.h"
#include "tests/unit/front_rig.h"
#include "tests/unit/suite.h"

static struct rig rig;

static void serve(uint32_t http_adapters)
{
	struct message_serve order = rig_order(IO_EPOLL, 8);
	order.http_adapters = http_adapters;
	rig_start(&rig, &order);
	rig_state(&rig, 0, 0);
	rig_worker_up(&rig, 0, "small");
}

/* What comes by messages, and clients that leave, are other ways into the front than requests: waits until the one
 * shows in the other. */
static void see(const char *path, const char *text, bool there)
{
	uint64_t end = clock_now_ns() + WAIT_S * UINT64_C(1000000000);
	bool is;
	do {
		struct rig_answer answer = rig_ask(&rig, "GET", path, NULL);
		is = strstr(answer.body, text) != NULL;
		free(answer.body);
	} while (is != there && clock_now_ns() < end);
	ck_assert_msg(is == there, "%s", text);
}

static void see_models(const char *text, bool there)
{
	see("/v1/models", text, there);
}

static void send(enum message_type type, const void *payload, size_t n)
{
	ck_assert_int_eq(message_send(rig.control, type, payload, n, NULL, 0), 0);
}

static void up(uint32_t id, const char *name)
{
	char root[64];
	struct message_adapter_up message = {.id = id, .model = "small", .created = 5};
	snprintf(message.name, sizeof message.name, "%s", name);
	snprintf(message.path, sizeof message.path, "/a/%u", id);
	send(MESSAGE_ADAPTER_UP, &message, sizeof message);
	snprintf(root, sizeof root, "\"root\":\"/a/%u\",\"parent\":\"small\"", id);
	see_models(root, true);
}

static void down(uint32_t id)
{
	char root[64];
	const struct message_adapter message = {id};
	send(MESSAGE_ADAPTER_DOWN, &message, sizeof message);
	snprintf(root, sizeof root, "\"root\":\"/a/%u\"", id);
	see_models(root, false);
}

static void expect_idle(uint32_t id)
{
	static struct message message;
	rig_message(&rig, &message);
	ck_assert_uint_eq(message.type, MESSAGE_ADAPTER_IDLE);
	const struct message_adapter *idle = message_payload(&message, sizeof *idle, 0);
	ck_assert_ptr_nonnull(idle);
	ck_assert_uint_eq(idle->id, id);
}

static uint64_t begin(struct rig_client *client, const char *body, uint32_t adapter)
{
	struct call_begin head;
	char *bytes;
	rig_request(client, "POST", "/v1/completions", body);
	uint64_t call = rig_call(&rig, 0, &head, &bytes);
	free(bytes);
	ck_assert_uint_eq(head.adapter, adapter);
	return call;
}

static void end(struct rig_client *client, uint64_t call, const char *text)
{
	rig_accept(&rig, 0, call);
	rig_token(&rig, 0, call, 5, "x");
	rig_done(&rig, 0, call, FINISH_STOP);
	rig_expect(rig_answer(client), 200, text);
}

START_TEST(a_name_leads_to_bytes)
{
	serve(1);
	up(7, "cs");
	up(8, "sales");
	struct rig_client client = rig_connect(&rig);
	end(&client, begin(&client, "{\"prompt\":\"a\"}", 0), "\"model\":\"small\"");
	end(&client, begin(&client, "{\"prompt\":\"a\",\"model\":\"cs\"}", 7), "\"model\":\"cs\"");
	end(&client, begin(&client, "{\"prompt\":\"a\",\"adapter\":\"sales\"}", 8), "\"model\":\"sales\"");
	end(&client, begin(&client, "{\"prompt\":\"a\",\"model\":\"small\",\"adapter\":\"cs\"}", 7),
	    "\"model\":\"cs\"");
	rig_close(&client);
	rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":\"a\",\"model\":\"cs\",\"adapter\":\"sales\"}", 400,
		  "'model' names the adapter 'cs'");
	rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":\"a\",\"adapter\":\"no\"}", 404, "adapter_not_found");
	rig_check(&rig, "POST", "/v1/completions", "{\"prompt\":\"a\",\"model\":\"no\"}", 404, "model_not_found");
	rig_check(&rig, "GET", "/v1/models/sales", NULL, 200, "\"root\":\"/a/8\"");
	rig_metric(&rig, "weightd_adapters{model=\"small\"} 2\n");
	rig_metric(&rig, "weightd_adapter_calls_total{model=\"small\",adapter=\"cs\"} 2\n");
	rig_metric(&rig, "weightd_adapter_calls_total{model=\"small\",adapter=\"sales\"} 1\n");
	rig_stop(&rig);
}
END_TEST

START_TEST(a_call_keeps_its_bytes_and_the_last_one_is_told)
{
	serve(1);
	up(7, "cs");
	struct rig_client one = rig_connect(&rig), two = rig_connect(&rig), other = rig_connect(&rig);
	uint64_t first = begin(&one, "{\"prompt\":\"a\",\"model\":\"cs\"}", 7);
	uint64_t second = begin(&two, "{\"prompt\":\"a\",\"model\":\"cs\"}", 7);
	up(9, "cs"); /* takes its place */
	see_models("/a/7", false);
	uint64_t third = begin(&other, "{\"prompt\":\"a\",\"model\":\"cs\"}", 9);
	end(&one, first, "\"model\":\"cs\"");
	down(9);
	end(&two, second, "\"model\":\"cs\"");
	expect_idle(7); /* and nothing before: 9 still has a call */
	rig_close(&other);
	rig_wait_cancel(&rig, 0, third);
	see_models("/a/9", false);
	rig_done(&rig, 0, third, FINISH_CANCELLED); /* until then the worker may be at it */
	expect_idle(9);
	rig_close(&one);
	rig_close(&two);
	rig_stop(&rig);
}
END_TEST

START_TEST(one_without_calls_is_idle_at_once)
{
	serve(1);
	up(7, "cs");
	down(7);
	expect_idle(7);
	up(8, "cs");
	up(9, "cs");
	expect_idle(8);
	rig_worker_down(&rig, 0);
	rig_stop(&rig);
}
END_TEST

START_TEST(a_dead_worker_ends_its_calls)
{
	serve(1);
	up(7, "cs");
	struct rig_client client = rig_connect(&rig);
	begin(&client, "{\"prompt\":\"a\",\"model\":\"cs\"}", 7);
	down(7);
	rig_worker_down(&rig, 0);
	rig_expect(rig_answer(&client), 502, "worker_died");
	expect_idle(7);
	rig_close(&client);
	rig_stop(&rig);
}
END_TEST

static struct message_adapter_request take_wish(void)
{
	static struct message message;
	rig_message(&rig, &message);
	ck_assert_uint_eq(message.type, MESSAGE_ADAPTER_REQUEST);
	const struct message_adapter_request *wish = message_payload(&message, sizeof *wish, 0);
	ck_assert_ptr_nonnull(wish);
	return *wish;
}

START_TEST(wishes_are_the_parents_to_grant)
{
	serve(1);
	struct rig_client one = rig_connect(&rig), two = rig_connect(&rig), gone = rig_connect(&rig);
	rig_request(&one, "POST", "/v1/load_lora_adapter",
		    "{\"lora_name\":\"cs\",\"lora_path\":\"x/y\",\"load_inplace\":true,\"base_model_name\":\"small\"}");
	struct message_adapter_request load = take_wish();
	ck_assert_uint_eq(load.wish, ADAPTER_LOAD);
	ck_assert_uint_eq(load.replace, 1);
	ck_assert_str_eq(load.name, "cs");
	ck_assert_str_eq(load.path, "x/y");
	ck_assert_str_eq(load.model, "small");
	rig_request(&gone, "POST", "/v1/unload_lora_adapter", "{\"lora_name\":\"gone\"}");
	struct message_adapter_request lost = take_wish();
	ck_assert_uint_eq(lost.wish, ADAPTER_UNLOAD);
	rig_close(&gone);
	see("/metrics", "weightd_clients_gone_total 1\n", true);
	rig_request(&two, "POST", "/v1/unload_lora_adapter", "{\"lora_name\":\"other\"}");
	struct message_adapter_request unload = take_wish();
	/* Answered out of order, and one for nobody. */
	struct message_adapter_answer answer = {
		.ticket = unload.ticket, .status = 404, .param = "lora_name", .text = "no"};
	send(MESSAGE_ADAPTER_ANSWER, &answer, sizeof answer);
	rig_expect(rig_answer(&two), 404, "\"param\":\"lora_name\"");
	answer.ticket = lost.ticket;
	send(MESSAGE_ADAPTER_ANSWER, &answer, sizeof answer);
	up(7, "cs");
	answer = (struct message_adapter_answer){.ticket = load.ticket, .status = 200};
	send(MESSAGE_ADAPTER_ANSWER, &answer, sizeof answer);
	rig_expect(rig_answer(&one), 200, "{\"id\":\"cs\",\"object\":\"model\"");
	rig_request(&one, "POST", "/v1/unload_lora_adapter", "{\"lora_name\":\"cs\",\"lora_int_id\":3}");
	answer.ticket = take_wish().ticket;
	send(MESSAGE_ADAPTER_ANSWER, &answer, sizeof answer);
	rig_expect(rig_answer(&one), 200, "{\"id\":\"cs\",\"object\":\"model\",\"deleted\":true}");
	rig_close(&one);
	rig_close(&two);
	rig_stop(&rig);
}
END_TEST

/* The end of a front with wishes and held adapters leaves no memory behind. */
START_TEST(a_front_may_end_in_the_middle)
{
	serve(1);
	up(7, "cs");
	struct rig_client one = rig_connect(&rig), two = rig_connect(&rig);
	begin(&one, "{\"prompt\":\"a\",\"model\":\"cs\"}", 7);
	rig_request(&two, "POST", "/v1/unload_lora_adapter", "{\"lora_name\":\"cs\"}");
	take_wish();
	rig_stop(&rig);
	rig_close(&one);
	rig_close(&two);
}
END_TEST

START_TEST(nothing_without_a_directory)
{
	serve(0);
	rig_check(&rig, "POST", "/v1/load_lora_adapter", "{\"lora_name\":\"cs\",\"lora_path\":\"x\"}", 403,
		  "adapter_dir");
	rig_check(&rig, "POST", "/v1/unload_lora_adapter", "{\"lora_name\":\"cs\"}", 403, "adapter_dir");
	rig_check(&rig, "GET", "/v1/unload_lora_adapter", NULL, 405, "POST");
	rig_stop(&rig);
}
END_TEST

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	Suite *suite = suite_create("front_adapters");
	TCase *tests = tcase_create("all");
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, a_name_leads_to_bytes);
	tcase_add_test(tests, a_call_keeps_its_bytes_and_the_last_one_is_told);
	tcase_add_test(tests, one_without_calls_is_idle_at_once);
	tcase_add_test(tests, a_dead_worker_ends_its_calls);
	tcase_add_test(tests, wishes_are_the_parents_to_grant);
	tcase_add_test(tests, a_front_may_end_in_the_middle);
	tcase_add_test(tests, nothing_without_a_directory);
	suite_add_tcase(suite, tests);
	return suite_run(suite);
}
