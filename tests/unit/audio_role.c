/* The process that decodes audio, as the front and the parent see it: what it answers, what it keeps, what it may not.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/audio/decode.h"
#include "src/audio/mel.h"
#include "src/audio/sandbox.h"
#include "src/audio/wire.h"
#include "src/privilege.h"
#include "tests/unit/audio_rig.h"

static struct audio_rig rig;
static struct channel front;

static void begin(void)
{
	struct err err;
	audio_rig_start(&rig, &audio_rig_order);
	ck_assert_int_eq(channel_attach(&rig.fds, CHANNEL_FRONT, &front, &err), 0);
}

static void end(void)
{
	int status = audio_rig_stop(&rig);
	channel_detach(&front);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

static void put(uint32_t type, uint64_t call, const void *bytes, size_t n)
{
	int rc;
	while ((rc = channel_write(&front, type, call, bytes, (uint32_t)n, NULL, 0)) == -EAGAIN) {
		channel_ring(&front);
		usleep(1000);
	}
	ck_assert_int_eq(rc, 0);
	channel_ring(&front);
}

static void begin_call(uint64_t call, uint32_t bins)
{
	const struct audio_begin b = {.mel_bins = bins};
	put(AUDIO_BEGIN, call, &b, sizeof b);
}

static void put_file(uint64_t call, const uint8_t *bytes, size_t n, size_t part)
{
	for (size_t i = 0; i < n; i += part)
		put(AUDIO_BYTES, call, bytes + i, n - i < part ? n - i : part);
}

/* The next record, copied into `payload` [CHANNEL_RECORD_MAX]. */
static uint32_t get(uint64_t call, void *payload, uint32_t *n_bytes)
{
	struct channel_record record;
	int rc;
	while ((rc = channel_read(&front, &record)) == 0) {
		struct pollfd wait = {.fd = rig.fds.to_front, .events = POLLIN};
		ck_assert_int_eq(poll(&wait, 1, 120000), 1);
		channel_quiet(&front);
	}
	ck_assert_int_eq(rc, 1);
	ck_assert_uint_eq(record.call, call);
	uint32_t type = record.type;
	*n_bytes = record.n_bytes;
	if (record.n_bytes)
		memcpy(payload, record.payload, record.n_bytes);
	channel_next(&front);
	channel_ring(&front);
	return type;
}

static uint32_t payload[CHANNEL_RECORD_MAX / 4];

/* All rows of a call; owned. */
static float *get_rows(uint64_t call, struct audio_info *info)
{
	uint32_t n, type = get(call, payload, &n);
	uint64_t row = 0;
	ck_assert_msg(type == AUDIO_INFO, "%u: %.*s", type, (int)(n > 40 ? n - 40 : 0), (const char *)payload + 40);
	ck_assert_uint_eq(n, sizeof *info);
	memcpy(info, payload, sizeof *info);
	float *rows = malloc(info->n_rows * info->mel_bins * sizeof *rows);
	while ((type = get(call, payload, &n)) == AUDIO_MEL) {
		uint32_t n_rows = n / (info->mel_bins * 4);
		ck_assert(n_rows && n % (info->mel_bins * 4) == 0 && row + n_rows <= info->n_rows);
		memcpy(rows + row * info->mel_bins, payload, n);
		row += n_rows;
	}
	ck_assert_uint_eq(type, AUDIO_DONE);
	ck_assert_uint_eq(row, info->n_rows);
	return rows;
}

static void get_failure(uint64_t call, uint32_t status, const char *code, const char *text)
{
	uint32_t n, type = get(call, payload, &n);
	struct audio_failed failed;
	ck_assert_uint_eq(type, AUDIO_FAILED);
	memcpy(&failed, payload, sizeof failed);
	((char *)payload)[n] = '\0';
	ck_assert_msg(failed.status == status && !strcmp(failed.code, code) &&
			      strstr((const char *)payload + sizeof failed, text),
		      "%u %s: %s", failed.status, failed.code, (const char *)payload + sizeof failed);
}

static int add(void *owner, const float *samples, size_t n)
{
	return mel_add(owner, samples, n);
}

/* What the process does, done here. */
static float *rows_here(const struct audio_file *file, uint32_t bins, uint64_t *n_rows)
{
	struct err err;
	struct mel *mel;
	struct decode_info info;
	float *rows = malloc(sizeof *rows * bins * 100 * 60);
	ck_assert_int_eq(mel_new(bins, &mel, &err), 0);
	struct decode_sink sink = {add, NULL, mel};
	mel_begin(mel, rows, 100 * 60);
	ck_assert_int_eq(decode_audio(file->bytes, file->n, 60, &sink, &info, &err), 0);
	ck_assert_int_eq(mel_end(mel, n_rows), 0);
	mel_free(mel);
	return rows;
}

/* AddressSanitizer keeps what was freed for a while, so that its processes' memory says nothing. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS_FREED_MEMORY 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_FREED_MEMORY 1
#endif
#if defined(KEEPS_FREED_MEMORY)
static const bool memory_tells = false;
#else
static const bool memory_tells = true;
#endif

/* Every decoder does all it has to under the filter, and the products find their code made. */
START_TEST(rows_come_as_they_are_made_without_a_sandbox)
{
	static const struct {
		int format, rate;
		uint32_t bins;
	} cases[] = {
		{SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 80},	{SF_FORMAT_WAV | SF_FORMAT_FLOAT, 192000, 128},
		{SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 44100, 80}, {SF_FORMAT_OGG | SF_FORMAT_VORBIS, 44100, 128},
		{SF_FORMAT_OGG | SF_FORMAT_OPUS, 48000, 80},	{SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, 44100, 80}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct audio_file file = audio_file_tone(cases[i].format, cases[i].rate, 2, 7, 440, 0.5);
		struct audio_info info;
		uint64_t n_rows;
		begin_call(i + 1, cases[i].bins);
		put_file(i + 1, file.bytes, file.n, 50000);
		put(AUDIO_END, i + 1, NULL, 0);
		float *rows = get_rows(i + 1, &info), *here = rows_here(&file, cases[i].bins, &n_rows);
		ck_assert_uint_eq(info.n_rows, n_rows);
		ck_assert_uint_eq(info.sample_rate, (unsigned)cases[i].rate);
		ck_assert_uint_eq(info.channels, 2);
		ck_assert(!memcmp(rows, here, n_rows * cases[i].bins * sizeof *rows));
		free(rows);
		free(here);
		audio_file_free(&file);
	}
}
END_TEST

START_TEST(files_that_are_not_right_get_words_and_the_next_is_served)
{
	static const char text[] = "no audio";
	struct audio_info info;
	struct audio_file file = audio_file_tone(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, 4, 440, 0.5);
	begin_call(1, 80);
	put(AUDIO_BYTES, 1, text, sizeof text);
	put(AUDIO_END, 1, NULL, 0);
	get_failure(1, 400, "invalid_audio", "no audio file");
	begin_call(2, 80);
	put(AUDIO_END, 2, NULL, 0);
	get_failure(2, 400, "invalid_audio", "empty");
	begin_call(3, 80);
	put_file(3, file.bytes, file.n / 2, 1000);
	put(AUDIO_END, 3, NULL, 0);
	get_failure(3, 400, "truncated_audio", "of 4.00 seconds could be decoded");
	begin_call(4, 80);
	put(AUDIO_BYTES, 4, "\x1a\x45\xdf\xa3", 4);
	put(AUDIO_END, 4, NULL, 0);
	get_failure(4, 415, "unsupported_audio", "WebM");
	begin_call(5, 80);
	put_file(5, file.bytes, file.n, 4096);
	put(AUDIO_END, 5, NULL, 0);
	free(get_rows(5, &info));
	ck_assert_double_eq(info.duration_s, 4);
	ck_assert_uint_eq(channel_counters(&front)->calls, 5);
	ck_assert_uint_eq(channel_counters(&front)->failed, 4);
	audio_file_free(&file);
}
END_TEST

START_TEST(a_file_that_is_too_large_is_refused_before_all_of_it_came)
{
	static uint8_t part[CHANNEL_RECORD_MAX];
	struct audio_info info;
	begin_call(1, 80);
	for (size_t n = 0; n <= audio_rig_order.max_bytes; n += sizeof part)
		put(AUDIO_BYTES, 1, part, sizeof part);
	get_failure(1, 413, "audio_too_large", "67108864 bytes");
	put(AUDIO_BYTES, 1, part, sizeof part); /* was on its way */
	put(AUDIO_END, 1, NULL, 0);
	struct audio_file file = audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 0.1, 440, 0.5);
	begin_call(2, 128);
	put_file(2, file.bytes, file.n, 100);
	put(AUDIO_END, 2, NULL, 0);
	free(get_rows(2, &info));
	ck_assert_uint_eq(info.n_rows, 11);
	audio_file_free(&file);
}
END_TEST

START_TEST(an_hour_is_served_and_leaves_nothing)
{
	struct audio_file file = audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_U8, 4000, 1, 3600, 440, 0.5);
	struct audio_info info;
	ck_assert_uint_lt(file.n, audio_rig_order.max_bytes);
	long before = audio_rig_field(&rig, "RssAnon:");
	begin_call(1, 80);
	put_file(1, file.bytes, file.n, CHANNEL_RECORD_MAX);
	put(AUDIO_END, 1, NULL, 0);
	free(get_rows(1, &info));
	ck_assert_uint_eq(info.n_rows, 360001);
	audio_file_free(&file);
	file = audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_U8, 4000, 1, 3601, 440, 0.5);
	begin_call(2, 80);
	put_file(2, file.bytes, file.n, CHANNEL_RECORD_MAX);
	put(AUDIO_END, 2, NULL, 0);
	get_failure(2, 413, "audio_too_long", "3601.0 seconds");
	audio_file_free(&file);
	long after = audio_rig_field(&rig, "RssAnon:");
	ck_assert_msg(!memory_tells || after < before + 4096, "%ld KiB before, %ld after", before, after);
}
END_TEST

/* In the upload, and when rows wait for room. */
START_TEST(a_cancelled_call_ends_and_the_next_is_served)
{
	struct audio_file file = audio_file_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 200, 440, 0.5);
	struct audio_info info;
	uint32_t n, type;
	begin_call(1, 80);
	put_file(1, file.bytes, 100000, 5000);
	put(AUDIO_CANCEL, 1, NULL, 0);
	get_failure(1, 400, "cancelled", "");
	begin_call(2, 80);
	put_file(2, file.bytes, file.n, 50000);
	put(AUDIO_END, 2, NULL, 0);
	ck_assert_uint_eq(get(2, payload, &n), AUDIO_INFO); /* 6 MB of rows do not fit */
	put(AUDIO_CANCEL, 2, NULL, 0);
	for (uint32_t rows = 0; (type = get(2, payload, &n)) == AUDIO_MEL; rows += n / 320)
		ck_assert_uint_lt(rows, 20001);
	ck_assert_uint_eq(type, AUDIO_FAILED);
	put(AUDIO_CANCEL, 2, NULL, 0); /* too late: nothing comes of it */
	begin_call(3, 80);
	put_file(3, file.bytes, file.n, 50000);
	put(AUDIO_END, 3, NULL, 0);
	free(get_rows(3, &info));
	ck_assert_uint_eq(channel_counters(&front)->cancelled, 2);
	audio_file_free(&file);
}
END_TEST

START_TEST(memory_is_flat_over_many_files)
{
	static const int formats[] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
				      SF_FORMAT_OGG | SF_FORMAT_VORBIS, SF_FORMAT_OGG | SF_FORMAT_OPUS,
				      SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III};
	struct audio_file files[5];
	struct audio_info info;
	long early = 0;
	for (int f = 0; f < 5; f++)
		files[f] = audio_file_tone(formats[f], 48000, 2, 3 + 2 * f, 440, 0.5);
	for (uint64_t i = 0; i < 200; i++) {
		const struct audio_file *file = &files[i % 5];
		begin_call(i, i % 2 ? 80 : 128);
		put_file(i, file->bytes, i % 7 == 6 ? file->n / 2 : file->n, 30000);
		put(AUDIO_END, i, NULL, 0);
		if (i % 7 != 6) {
			free(get_rows(i, &info));
		} else {
			uint32_t n, type;
			do
				type = get(i, payload, &n);
			while (type != AUDIO_DONE && type != AUDIO_FAILED);
		}
		if (i == 19)
			early = audio_rig_field(&rig, "RssAnon:");
	}
	long late = audio_rig_field(&rig, "RssAnon:");
	ck_assert_msg(!memory_tells || late <= early + 512, "%ld KiB after 20 files, %ld after 200", early, late);
	for (int f = 0; f < 5; f++)
		audio_file_free(&files[f]);
}
END_TEST

START_TEST(it_has_given_everything_up)
{
	ck_assert_int_eq(audio_rig_field(&rig, "Seccomp:"), 2);
	ck_assert_int_eq(audio_rig_field(&rig, "NoNewPrivs:"), 1);
	ck_assert_int_eq(audio_rig_field(&rig, "CapEff:"), 0);
	ck_assert_int_eq(audio_rig_field(&rig, "CapBnd:"), geteuid() ? audio_rig_field(&rig, "CapBnd:") : 0);
}
END_TEST

/* Each of these ends the process, with words for the parent. */
START_TEST(a_front_that_breaks_the_protocol_ends_it)
{
	for (int kind = 0; kind < 5; kind++) {
		struct message_failed failed;
		const struct audio_begin wrong = {.mel_bins = 81};
		begin();
		if (kind == 0)
			put(AUDIO_BEGIN, 1, &wrong, sizeof wrong);
		else if (kind == 1)
			put(AUDIO_BEGIN, 1, &wrong, 3);
		else if (kind == 2)
			put(77, 1, NULL, 0);
		else
			begin_call(1, 80);
		if (kind == 3)
			begin_call(2, 80);
		if (kind == 4)
			put(AUDIO_MEL, 1, NULL, 0);
		int status = audio_rig_ended(&rig, &failed);
		channel_detach(&front);
		ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
		ck_assert_str_eq(failed.err.text, "the front breaks the protocol");
	}
}
END_TEST

/* Something in a process that is confined as this role is: returns its wait status, or -1 where the filter is refused.
 */
static int confined(int (*what)(void))
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		struct err err;
		if (privilege_drop(UINT64_MAX, UINT64_MAX, &err) || sandbox_limit(64 << 20, &err) ||
		    sandbox_enter(MESSAGE_FD, &err))
			_exit(99);
		_exit(what());
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static int opens(void)
{
	return open("/etc/passwd", O_RDONLY) < 0 ? errno : 0;
}

static int creates(void)
{
	return open("/tmp/weightd-audio-test", O_CREAT | O_WRONLY, 0600) < 0 ? errno : 0;
}

static int makes_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0;
}

static int runs_program(void)
{
	char *argv[] = {(char[]){"/bin/true"}, NULL};
	return execv(argv[0], argv) ? errno : 0;
}

static int makes_process(void)
{
	return fork() < 0 ? errno : 0;
}

static int makes_code(void)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return at == MAP_FAILED ? errno : 0;
}

static int turns_data_into_code(void)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return at == MAP_FAILED ? 98 : mprotect(at, 4096, PROT_READ | PROT_EXEC) ? errno : 0;
}

static int writes_to_another(void)
{
	struct msghdr message = {0};
	return sendmsg(1, &message, 0) < 0 ? errno : 0;
}

static int takes_memory(void)
{
	void *at = mmap(NULL, 128 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return at == MAP_FAILED ? errno : 0;
}

static int takes_memory_that_it_may(void)
{
	void *at = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return at == MAP_FAILED ? errno : 0;
}

START_TEST(what_decoding_does_not_need_fails)
{
	static const struct {
		int (*what)(void);
		int error; /* 0: it is killed with SIGSYS */
	} cases[] = {{opens, EPERM},
		     {creates, EPERM},
		     {makes_socket, 0},
		     {runs_program, 0},
		     {makes_code, EPERM},
		     {turns_data_into_code, EPERM},
		     {writes_to_another, EPERM},
		     {takes_memory, ENOMEM},
		     {makes_process, EPERM}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int status = confined(cases[i].what);
		if (cases[i].error)
			ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == cases[i].error, "%zu: status %#x", i,
				      status);
		else
			ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%zu: status %#x", i, status);
	}
	int status = confined(takes_memory_that_it_may);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}
END_TEST

static int spins(void)
{
	struct err err;
	if (sandbox_limit_cpu(1, &err))
		return 98;
	for (volatile unsigned i = 0;; i++)
		;
}

START_TEST(cpu_time_has_an_end)
{
	int status = confined(spins);
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU, "status %#x", status);
}
END_TEST

int main(int argc, char **argv)
{
	(void)argc;
	audio_rig_init(argv);
	Suite *suite = suite_create("audio_role");
	TCase *calls = tcase_create("calls");
	tcase_set_timeout(calls, 120);
	tcase_add_checked_fixture(calls, begin, end);
	tcase_add_test(calls, rows_come_as_they_are_made_without_a_sandbox);
	tcase_add_test(calls, files_that_are_not_right_get_words_and_the_next_is_served);
	tcase_add_test(calls, a_file_that_is_too_large_is_refused_before_all_of_it_came);
	tcase_add_test(calls, an_hour_is_served_and_leaves_nothing);
	tcase_add_test(calls, a_cancelled_call_ends_and_the_next_is_served);
	tcase_add_test(calls, memory_is_flat_over_many_files);
	tcase_add_test(calls, it_has_given_everything_up);
	suite_add_tcase(suite, calls);
	TCase *ends = tcase_create("ends");
	tcase_set_timeout(ends, 60);
	tcase_add_test(ends, a_front_that_breaks_the_protocol_ends_it);
	tcase_add_test(ends, what_decoding_does_not_need_fails);
	tcase_add_test(ends, cpu_time_has_an_end);
	suite_add_tcase(suite, ends);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
