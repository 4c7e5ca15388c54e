/* A process of the role `audio`, as the parent starts one, and both ends of what is said to it. */
#ifndef WEIGHTD_TESTS_AUDIO_RIG_H
#define WEIGHTD_TESTS_AUDIO_RIG_H

#include <stdbool.h>
#include <sys/types.h>

#include "shm/channel.h"
#include "src/message.h"
#include "tests/unit/audio_files.h"

struct audio_rig {
	pid_t pid;
	int fd; /* the parent's end of the pair */
	struct channel_fds fds;
};

/* First thing in main: oneDNN's OpenMP is to add no threads, as in the daemon, and it reads that when a program starts.
 */
void audio_rig_init(char **argv);

/* Starts it and waits until it is ready. Ends the test where it is not. */
void audio_rig_start(struct audio_rig *rig, const struct message_audio *order);
/* Tells it to end; returns its wait status. */
int audio_rig_stop(struct audio_rig *rig);
/* Waits for an end of its own; returns its wait status, and in *failed why it said it would. */
int audio_rig_ended(struct audio_rig *rig, struct message_failed *failed);
/* Field of /proc/PID/status, such as "RssAnon:" in KiB. */
long audio_rig_field(const struct audio_rig *rig, const char *field);

/* The limits of the tests: an hour, 64 MiB, and the filter of system calls. */
extern const struct message_audio audio_rig_order;

#endif
