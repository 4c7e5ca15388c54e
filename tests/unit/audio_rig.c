#include "tests/unit/audio_rig.h"

#include <check.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/log.h"
#include "src/roles.h"

const struct message_audio audio_rig_order = {
	.max_seconds = 3600, .seccomp = 1, .max_bytes = 64 << 20, .uid = UINT64_MAX, .gid = UINT64_MAX};

void audio_rig_init(char **argv)
{
	if (getenv("OMP_NUM_THREADS"))
		return;
	setenv("OMP_NUM_THREADS", "1", 1);
	execv("/proc/self/exe", argv);
}

void audio_rig_start(struct audio_rig *rig, const struct message_audio *order)
{
	int pair[2];
	struct err err = {""};
	struct message message;
	ck_assert_int_eq(channel_create(&rig->fds, &err), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	rig->pid = fork();
	ck_assert_int_ge(rig->pid, 0);
	if (rig->pid == 0) {
		int mine = dup(pair[1]); /* what has MESSAGE_FD here may be any descriptor of the test */
		dup2(mine, MESSAGE_FD);
		for (int fd = MESSAGE_FD + 1; fd < 64; fd++)
			close(fd);
		log_init("audio 0", LOG_LEVEL_ERROR);
		_exit(audio_main());
	}
	close(pair[1]);
	rig->fd = pair[0];
	const int fds[3] = {rig->fds.memory, rig->fds.to_worker, rig->fds.to_front};
	ck_assert_int_eq(message_send(rig->fd, MESSAGE_AUDIO, order, sizeof *order, fds, 3), 0);
	ck_assert_int_eq(message_receive(rig->fd, &message), 1);
	ck_assert_msg(message.type == MESSAGE_READY, "it did not start: %.255s",
		      ((const struct message_failed *)(const void *)message.payload)->err.text);
}

int audio_rig_ended(struct audio_rig *rig, struct message_failed *failed)
{
	int status = 0;
	struct message message;
	const struct message_failed *said;
	*failed = (struct message_failed){.err = {""}};
	while (message_receive(rig->fd, &message) == 1)
		if (message.type == MESSAGE_FAILED && (said = message_payload(&message, sizeof *said, 0)))
			*failed = *said;
	ck_assert_int_eq(waitpid(rig->pid, &status, 0), rig->pid);
	close(rig->fd);
	channel_close(&rig->fds);
	return status;
}

int audio_rig_stop(struct audio_rig *rig)
{
	struct message_failed failed;
	message_send(rig->fd, MESSAGE_DRAIN, NULL, 0, NULL, 0);
	return audio_rig_ended(rig, &failed);
}

long audio_rig_field(const struct audio_rig *rig, const char *field)
{
	char path[64], line[256];
	long value = -1;
	snprintf(path, sizeof path, "/proc/%d/status", (int)rig->pid);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, field, strlen(field)))
			value = strtol(line + strlen(field), NULL, 16 - 6 * !strstr(field, "Cap"));
	if (file)
		fclose(file);
	return value;
}
