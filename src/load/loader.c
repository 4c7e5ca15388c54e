/* The loader: one process for one model, adopted from what an earlier daemon left or loaded from its files, or for one
 * adapter. It reads what a stranger may have written, so it has no privilege, no network and no path: the parent opened
 * files and leftovers. A node that fills up kills it rather than anyone else (oom_score_adj 1000), and the parent then
 * removes what it left. */
#include "src/roles.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "src/load/adopt.h"
#include "src/clock.h"
#include "src/load/load.h"
#include "src/load/load_adapter_copies.h"
#include "src/load/load_again.h"
#include "src/log.h"
#include "src/message.h"
#include "src/privilege.h"

enum { PROGRESS_EVERY_NS = 100000000 };

/* Raising one's own score needs no privilege; where it fails, the load still works. */
static void volunteer_for_oom(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "1000", 4) != 4)
		log_warning("oom_score_adj: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* Root may give segments to any group only by being in it: the capability is gone afterwards. */
static int drop(const struct message_load *order, struct err *err)
{
	uint64_t gid = geteuid() == 0 && order->group != UINT32_MAX ? order->group : UINT64_MAX;
	return privilege_drop(UINT64_MAX, gid, err);
}

struct reporter {
	uint64_t last_ns;
};

static void report(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
	struct reporter *reporter = context;
	uint64_t now_ns = clock_now_ns();
	if (now_ns - reporter->last_ns < PROGRESS_EVERY_NS && done_bytes < total_bytes)
		return;
	reporter->last_ns = now_ns;
	struct message_progress progress = {done_bytes, total_bytes};
	/* The parent gone or slow: this load's end will notice, or PDEATHSIG has. */
	(void)message_send(MESSAGE_FD, MESSAGE_PROGRESS, &progress, sizeof progress, NULL, 0);
}

static int hand_over(const struct loaded *loaded, struct err *err)
{
	for (uint32_t i = 0; i < loaded->n; i++) {
		int rc = message_send(MESSAGE_FD, MESSAGE_SEGMENT, &loaded->segments[i], sizeof loaded->segments[i],
				      &loaded->fds[i], 1);
		if (rc)
			return err_set(err, rc, "handing a segment to the parent: %s", strerror(-rc));
	}
	return 0;
}

static int hand_over_all(struct loaded *loaded, struct err *err)
{
	int rc = hand_over(loaded, err);
	if (rc)
		loaded_discard(loaded);
	else
		loaded_close(loaded);
	return rc;
}

static int receive(struct message *message, struct err *err)
{
	int rc = message_receive(MESSAGE_FD, message);
	return rc == 1 ? 0 : err_set(err, rc ? rc : -EPIPE, "no order from the parent");
}

/* The files of an order to load, which follow it. */
static int receive_files(uint32_t n, struct load_input *out, struct err *err)
{
	static struct message message;
	if (n < 1 || n > SEGMENT_FILES_MAX)
		return err_set(err, -EPROTO, "%u files are announced, possible are 1 to %d", n, SEGMENT_FILES_MAX);
	for (uint32_t have = 0; have < n;) {
		int rc = message_receive(MESSAGE_FD, &message);
		const struct message_files *files =
			rc == 1 ? message_payload(&message, sizeof *files, message.n_fds) : NULL;
		if (!files || message.type != MESSAGE_FILES || files->n < 1 || files->n != message.n_fds ||
		    files->n > n - have)
			return err_set(err, rc < 0 ? rc : -EPROTO, "file %u of %u did not come", have + 1, n);
		for (uint32_t i = 0; i < files->n; i++, have++) {
			if (!memchr(files->file[i].name, '\0', sizeof files->file[i].name))
				return err_set(err, -EPROTO, "file %u of %u has a name without an end", have + 1, n);
			out[have] = (struct load_input){.fd = message.fds[i], .role = files->file[i].role};
			memcpy(out[have].name, files->file[i].name, sizeof out[have].name);
		}
	}
	return 0;
}

static int load(const struct message_load *order, struct err *err)
{
	static struct load_input inputs[SEGMENT_FILES_MAX]; /* large; once per process */
	struct loaded loaded;
	struct reporter reporter = {0};
	const struct load_progress progress = {report, &reporter};
	int rc = receive_files(order->n_files, inputs, err);
	if (rc == 0)
		rc = model_load(order, inputs, &progress, &loaded, err);
	if (rc)
		return rc;
	struct load_pace pace = loaded.pace;
	rc = hand_over_all(&loaded, err);
	if (rc == 0)
		(void)message_send(MESSAGE_FD, MESSAGE_PACE, &pace, sizeof pace, NULL, 0); /* for people only */
	return rc;
}

static int load_adapter(const struct message *message, struct err *err)
{
	const struct message_load *order = message_payload(message, sizeof *order, message->n_fds);
	struct loaded loaded;
	if (!order || order->n_files < 1 || order->n_files > 2 || message->n_fds != 1 + order->n_files)
		return err_set(err, -EPROTO, "the order to load an adapter is malformed");
	int rc = drop(order, err);
	if (!rc)
		rc = load_adapter_copies(order, message->fds[0], message->fds + 1, &loaded, err);
	return rc ? rc : hand_over_all(&loaded, err);
}

static int load_from_segment(const struct message *message, struct err *err)
{
	const struct message_load *order = message_payload(message, sizeof *order, 1);
	struct loaded loaded;
	if (!order)
		return err_set(err, -EPROTO, "the order to copy a segment is malformed");
	int rc = drop(order, err);
	if (!rc)
		rc = load_again(order, message->fds[0], &loaded, err);
	return rc ? rc : hand_over_all(&loaded, err);
}

/* --- adopting --------------------------------------------------------------------------------- */

static int receive_candidates(uint32_t n, struct adopt_candidate *out, struct err *err)
{
	struct message message;
	if (n > MESSAGE_CANDIDATES_MAX)
		return err_set(err, -EPROTO, "%u candidates are announced, possible are %d", n, MESSAGE_CANDIDATES_MAX);
	for (uint32_t i = 0; i < n; i++) {
		int rc = message_receive(MESSAGE_FD, &message);
		const struct message_candidate *candidate =
			rc == 1 ? message_payload(&message, sizeof *candidate, 1) : NULL;
		if (!candidate || message.type != MESSAGE_CANDIDATE ||
		    !memchr(candidate->name, '\0', sizeof candidate->name))
			return err_set(err, rc < 0 ? rc : -EPROTO, "candidate %u of %u did not come", i + 1, n);
		out[i] = (struct adopt_candidate){
			.fd = message.fds[0], .node = candidate->node, .generation = candidate->generation};
		memcpy(out[i].name, candidate->name, sizeof out[i].name);
	}
	return 0;
}

static void tell_refusals(const struct adopt_candidate *candidates, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct message_refused refused = {.node = candidates[i].node, .why = candidates[i].refusal};
		memcpy(refused.name, candidates[i].name, sizeof refused.name);
		if (refused.why.text[0])
			(void)message_send(MESSAGE_FD, MESSAGE_REFUSED, &refused, sizeof refused, NULL, 0);
	}
}

/* 1: adopted and handed over; 0: not adopted, and the parent knows; or -errno. */
static int adopt(const struct message_adopt *order, struct err *err)
{
	static struct adopt_candidate candidates[MESSAGE_CANDIDATES_MAX]; /* large; once per process */
	struct loaded loaded;
	struct message_failed why = {.err = {""}};
	int rc = receive_candidates(order->n_candidates, candidates, err);
	if (rc)
		return rc;
	int adopted = model_adopt(order, candidates, order->n_candidates, &loaded, &why.err);
	tell_refusals(candidates, order->n_candidates);
	for (uint32_t i = 0; i < order->n_candidates; i++)
		if (candidates[i].fd >= 0)
			close(candidates[i].fd);
	if (adopted) {
		rc = message_send(MESSAGE_FD, MESSAGE_NOT_ADOPTED, &why, sizeof why, NULL, 0);
		return rc ? err_set(err, rc, "telling the parent: %s", strerror(-rc)) : 0;
	}
	rc = hand_over(&loaded, err);
	loaded_close(&loaded); /* the segments stay in any case: they are good for the next start as well */
	return rc ? rc : 1;
}

/* --- orders ----------------------------------------------------------------------------------- */

static int serve(struct message *message, struct err *err)
{
	const struct message_adopt *to_adopt = message_payload(message, sizeof *to_adopt, 0);
	const struct message_load *to_load = message_payload(message, sizeof *to_load, 0);
	int rc;
	if (message->type == MESSAGE_LOAD_ADAPTER)
		return load_adapter(message, err);
	if (message->type == MESSAGE_COPY)
		return load_from_segment(message, err);
	if (message->type == MESSAGE_ADOPT && to_adopt) {
		rc = drop(&to_adopt->load, err);
		if (!rc)
			rc = adopt(to_adopt, err);
		if (rc)
			return rc < 0 ? rc : 0;
		rc = receive(message, err);
		if (rc)
			return rc;
		to_load = message_payload(message, sizeof *to_load, 0);
	} else if (message->type == MESSAGE_LOAD && to_load) {
		rc = drop(to_load, err);
		if (rc)
			return rc;
	}
	if (message->type != MESSAGE_LOAD || !to_load)
		return err_set(err, -EPROTO, "a message of type %u is no order to load", message->type);
	return load(to_load, err);
}

int loader_main(void)
{
	static struct message message;
	struct message_failed failed = {.err = {""}};
	volunteer_for_oom();
	if (message_receive(MESSAGE_FD, &message) <= 0) /* the parent had no order after all, or is gone */
		return 1;
	failed.code = serve(&message, &failed.err);
	if (!failed.code)
		return 0;
	(void)message_send(MESSAGE_FD, MESSAGE_FAILED, &failed, sizeof failed, NULL,
			   0); /* the exit status says it, too */
	return 1;
}
