/* The front's side of processes that decode audio, against real ones. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/clock.h"
#include "src/front/audio.h"
#include "tests/unit/audio_rig.h"

enum { PROCESSES = 2, OWNERS = 12, MAX_BYTES = 1 << 20, TICK_MS = 5 };

struct owner {
	struct audio_call *call;
	struct audio_info info;
	uint64_t n_rows;
	unsigned n_info, n_done, n_failed, n_mel;
	struct api_error error;
	unsigned pause_at, cancel_at; /* in the record of rows with this number; 0: never */
};

static struct loop *loop;
static struct audio_pool pool;
static struct audio_rig rig[PROCESSES];
static struct owner owners[OWNERS];
static struct loop_op tick;
static bool (*finished)(void);
static uint64_t until_ns;
static unsigned n_broken;

static void on_info(void *owner, const struct audio_info *info)
{
	struct owner *o = owner;
	o->info = *info;
	o->n_info++;
}

static void on_mel(void *owner, const float *rows, uint64_t first_row, uint32_t n_rows)
{
	struct owner *o = owner;
	ck_assert_uint_eq(first_row, o->n_rows);
	for (uint32_t i = 0; i < n_rows * o->info.mel_bins; i++)
		ck_assert(rows[i] >= -2 && rows[i] <= 2);
	o->n_rows += n_rows;
	o->n_mel++;
	if (o->n_mel == o->pause_at)
		audio_call_pause(o->call);
	if (o->n_mel == o->cancel_at)
		audio_call_cancel(o->call);
}

static void on_done(void *owner)
{
	((struct owner *)owner)->n_done++;
}

static void on_failed(void *owner, const struct api_error *error)
{
	struct owner *o = owner;
	o->n_failed++;
	o->error = *error;
}

static const struct audio_handler handler = {on_info, on_mel, on_done, on_failed};

static void on_broken(uint32_t index)
{
	(void)index;
	n_broken++;
}

static void on_tick(struct loop_op *op, int result)
{
	if (result < 0)
		return;
	if (finished && finished())
		loop_stop(loop);
	else if (clock_now_ns() > until_ns)
		ck_abort_msg("it does not come to its end");
	else
		loop_timer(loop, op, TICK_MS * CLOCK_MS_NS);
}

static void run_until(bool (*what)(void))
{
	finished = what;
	until_ns = clock_now_ns() + 600000 * CLOCK_MS_NS; /* a machine may be busy */
	loop_timer(loop, &tick, TICK_MS * CLOCK_MS_NS);
	ck_assert_int_eq(loop_run(loop), 0);
}

static void up(unsigned i)
{
	struct err err;
	audio_rig_start(&rig[i], &audio_rig_order);
	struct channel_fds fds = {dup(rig[i].fds.memory), dup(rig[i].fds.to_worker), dup(rig[i].fds.to_front)};
	ck_assert_int_eq(audio_pool_up(&pool, i, &fds, &err), 0);
}

static void begin(void)
{
	struct err err;
	tick.done = on_tick;
	ck_assert_int_eq(loop_new(IO_EPOLL, 64, &loop, &err), 0);
	audio_pool_init(&pool, loop, OWNERS, MAX_BYTES, on_broken);
}

static void end(void)
{
	audio_pool_fini(&pool);
	loop_free(loop);
	for (unsigned i = 0; i < PROCESSES; i++)
		if (rig[i].pid)
			audio_rig_stop(&rig[i]);
}

static void submit(unsigned i, const struct audio_file *file, size_t part)
{
	struct owner *o = &owners[i];
	o->call = audio_call_new(&pool, 80, &handler, o);
	ck_assert_ptr_nonnull(o->call);
	for (size_t k = 0; k < file->n; k += part)
		audio_call_bytes(o->call, file->bytes + k, file->n - k < part ? file->n - k : part);
	audio_call_end(o->call);
}

static unsigned ended(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < OWNERS; i++)
		n += owners[i].n_done + owners[i].n_failed;
	return n;
}

static bool one_ended(void)
{
	return ended() >= 1;
}

static bool two_ended(void)
{
	return ended() >= 2;
}

static bool all_ended(void)
{
	return ended() == OWNERS;
}

static bool none_left(void)
{
	return !pool.n_calls;
}

static struct audio_file tone(double seconds)
{
	return audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, seconds, 440, 0.5);
}

START_TEST(calls_wait_for_a_process_in_their_order)
{
	struct audio_file file = tone(6);
	for (unsigned i = 0; i < OWNERS; i++)
		submit(i, &file, 9999); /* before there is any process */
	ck_assert_ptr_null(audio_call_new(&pool, 80, &handler, NULL));
	up(0);
	up(1);
	run_until(all_ended);
	for (unsigned i = 0; i < OWNERS; i++) {
		ck_assert_uint_eq(owners[i].n_info, 1);
		ck_assert_uint_eq(owners[i].n_done, 1);
		ck_assert_uint_eq(owners[i].n_rows, 601);
		ck_assert_double_eq(owners[i].info.duration_s, 6);
	}
	ck_assert_uint_eq(pool.n_done, OWNERS);
	ck_assert_uint_eq(pool.n_calls, 0);
	ck_assert_uint_eq(pool.n_samples, OWNERS * 96000u);
	ck_assert_uint_eq(n_broken, 0);
	audio_file_free(&file);
}
END_TEST

static bool rows_came(void)
{
	return owners[0].n_mel >= 1;
}

/* One that dies in the middle costs the call it had; the next waits for the one that takes its place. */
START_TEST(a_killed_process_costs_one_call)
{
	struct audio_file file = tone(30), short_file = tone(1);
	owners[0].pause_at = 1; /* 3001 rows do not fit into the ring: it is in the middle of them */
	up(0);
	submit(0, &file, 50000);
	submit(1, &short_file, 50000);
	run_until(rows_came);
	kill(rig[0].pid, SIGKILL);
	ck_assert_int_eq(waitpid(rig[0].pid, NULL, 0), rig[0].pid);
	audio_pool_down(&pool, 0);     /* as the parent tells */
	ck_assert_uint_eq(ended(), 0); /* not from within */
	run_until(one_ended);
	ck_assert_uint_eq(owners[0].n_failed, 1);
	ck_assert_int_eq(owners[0].error.status, 502);
	ck_assert_str_eq(owners[0].error.code, "audio_process_died");
	up(0);
	run_until(two_ended);
	ck_assert_uint_eq(owners[1].n_done, 1);
	ck_assert_uint_eq(owners[1].n_rows, 101);
	audio_file_free(&file);
	audio_file_free(&short_file);
}
END_TEST

static bool paused_long(void)
{
	static unsigned looks;
	return owners[0].n_mel >= 2 && ++looks == 40;
}

START_TEST(a_paused_call_gets_no_rows_until_it_goes_on)
{
	struct audio_file file = tone(30);
	owners[0].pause_at = 2;
	up(0);
	submit(0, &file, 1000);
	run_until(paused_long);
	ck_assert_uint_eq(owners[0].n_mel, 2);
	audio_call_resume(owners[0].call);
	run_until(one_ended);
	ck_assert_uint_eq(owners[0].n_rows, 3001);
	ck_assert_uint_eq(owners[0].n_done, 1);
	audio_file_free(&file);
}
END_TEST

static bool third_ended(void)
{
	return owners[3].n_done + owners[3].n_failed == 1;
}

static bool second_cut(void)
{
	return owners[1].n_mel == 1;
}

/* While it waits, while it is sent, from within its own rows; and the next is served. */
START_TEST(cancelled_calls_are_heard_of_no_more)
{
	struct audio_file file = tone(30);
	submit(0, &file, 1000);
	audio_call_cancel(owners[0].call); /* while it waits */
	ck_assert_uint_eq(pool.n_calls, 0);
	up(0);
	submit(1, &file, 1000);
	owners[1].cancel_at = 1; /* from within its rows */
	run_until(second_cut);
	owners[2].call = audio_call_new(&pool, 80, &handler, &owners[2]);
	audio_call_bytes(owners[2].call, file.bytes, 100);
	submit(3, &file, 100000);
	audio_call_cancel(owners[2].call); /* in its upload */
	run_until(third_ended);
	run_until(none_left);
	ck_assert_uint_eq(owners[0].n_info + owners[0].n_failed, 0);
	ck_assert_uint_eq(owners[1].n_mel, 1);
	ck_assert_uint_eq(owners[1].n_done + owners[1].n_failed, 0);
	ck_assert_uint_eq(owners[2].n_info + owners[2].n_failed, 0);
	ck_assert_uint_eq(owners[3].n_done, 1);
	ck_assert_uint_eq(pool.n_cancelled, 3);
	audio_file_free(&file);
}
END_TEST

START_TEST(files_that_are_not_right_fail_with_words)
{
	struct audio_file text = {.bytes = (uint8_t *)(uintptr_t) "some text", .n = 9}, file = tone(40);
	up(0);
	submit(0, &text, 3);
	submit(1, &file, 5000); /* larger than MAX_BYTES */
	run_until(two_ended);
	ck_assert_int_eq(owners[0].error.status, 400);
	ck_assert_str_eq(owners[0].error.code, "invalid_audio");
	ck_assert_str_eq(owners[0].error.param, "file");
	ck_assert_ptr_nonnull(strstr(owners[0].error.message, "no audio file"));
	ck_assert_int_eq(owners[1].error.status, 413);
	ck_assert_str_eq(owners[1].error.code, "audio_too_large");
	run_until(none_left);
	ck_assert_uint_eq(pool.n_failed, 2);
	audio_file_free(&file);
}
END_TEST

static struct channel process;

static bool asked(void)
{
	struct channel_record record;
	return channel_read(&process, &record) == 1;
}

/* Whatever a process may write: its call fails, the parent is told, nothing else happens. */
START_TEST(a_process_that_breaks_the_protocol_is_given_up)
{
	static uint8_t bytes[CHANNEL_RECORD_MAX];
	struct audio_file file = tone(1);
	struct err err;
	const struct {
		uint32_t type, n;
		uint64_t call;
	} records[] = {{AUDIO_MEL, 320, 1},
		       {AUDIO_DONE, 0, 1},
		       {AUDIO_INFO, 55, 1},
		       {AUDIO_INFO, 56, 1},
		       {AUDIO_FAILED, 10, 1},
		       {AUDIO_FAILED, 40, 1},
		       {AUDIO_FAILED, 40, 2},
		       {99, 0, 1},
		       {AUDIO_FAILED, CHANNEL_RECORD_MAX, 1}};
	for (unsigned i = 0; i < sizeof records / sizeof *records; i++) {
		struct channel_fds fds;
		memset(owners, 0, sizeof owners);
		n_broken = 0;
		pool.last_id = 0; /* its id is 1 */
		ck_assert_int_eq(channel_create(&fds, &err), 0);
		ck_assert_int_eq(channel_attach(&fds, CHANNEL_WORKER, &process, &err), 0);
		struct channel_fds taken = {dup(fds.memory), dup(fds.to_worker), dup(fds.to_front)};
		submit(0, &file, 5000);
		ck_assert_int_eq(audio_pool_up(&pool, 0, &taken, &err), 0);
		run_until(asked);
		ck_assert_int_eq(
			channel_write(&process, records[i].type, records[i].call, bytes, records[i].n, NULL, 0), 0);
		channel_ring(&process);
		run_until(one_ended);
		ck_assert_msg(n_broken == 1 && owners[0].error.status == 502, "%u: %d %s", i, owners[0].error.status,
			      owners[0].error.message);
		ck_assert_uint_eq(pool.n_calls, 0);
		channel_detach(&process);
		channel_close(&fds);
	}
	audio_file_free(&file);
}
END_TEST

START_TEST(the_end_fails_what_there_is)
{
	struct audio_file file = tone(1);
	submit(0, &file, 5000);
	submit(1, &file, 5000);
	up(0);
	audio_pool_fini(&pool);
	ck_assert_uint_eq(ended(), 2);
	ck_assert_int_eq(owners[0].error.status, 503);
	audio_file_free(&file);
}
END_TEST

int main(int argc, char **argv)
{
	(void)argc;
	audio_rig_init(argv);
	Suite *suite = suite_create("front_audio");
	TCase *tests = tcase_create("pool");
	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, begin, end);
	tcase_add_test(tests, calls_wait_for_a_process_in_their_order);
	tcase_add_test(tests, a_killed_process_costs_one_call);
	tcase_add_test(tests, a_paused_call_gets_no_rows_until_it_goes_on);
	tcase_add_test(tests, cancelled_calls_are_heard_of_no_more);
	tcase_add_test(tests, files_that_are_not_right_fail_with_words);
	tcase_add_test(tests, a_process_that_breaks_the_protocol_is_given_up);
	tcase_add_test(tests, the_end_fails_what_there_is);
	suite_add_tcase(suite, tests);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
