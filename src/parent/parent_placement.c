/* What is known of the weights' places, in a word; and what the daemon does where the kernel refuses to make or tell
 * them: it says so once, and goes on, or with `strict` ends before it has served anything. */
#include "src/parent/parent_internal.h"

#include <errno.h>
#include <string.h>

#include "src/log.h"

const char *copy_placement(const struct parent_copy *copy)
{
	const struct placement *p = &copy->segment.report.placement;
	return placement_verified(p) ? "verified" : p->misplaced ? "misplaced" : "unverified";
}

/* Of the words for copies, the worst. */
struct worst {
	uint32_t n, misplaced, verified;
};

static void count_copies(struct worst *worst, const struct parent_copy *copies, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct placement *p = &copies[i].segment.report.placement;
		worst->misplaced += p->misplaced != 0;
		worst->verified += placement_verified(p);
	}
	worst->n += n;
}

const char *parent_placement(const struct parent *parent)
{
	struct worst worst = {0};
	for (uint32_t i = 0; i < parent->config.n_models; i++)
		count_copies(&worst, parent->models[i].copies, parent->models[i].n_copies);
	for (const struct parent_adapter *a = parent->adapters; a; a = a->next)
		count_copies(&worst, a->copies, a->n_copies);
	if (worst.misplaced)
		return "misplaced";
	return worst.n && worst.verified == worst.n && !refusals_any(&parent->refused) ? "verified" : "unverified";
}

void placement_refused(struct parent *parent, const struct refusals *refused)
{
	char text[REFUSALS_TEXT];
	if (!refusals_add(&parent->refused, refused))
		return;
	refusals_format(&parent->refused, text, sizeof text);
	log_warning("NUMA calls are refused: %s; placement is unverified. Containers need CAP_SYS_NICE, or a seccomp "
		    "profile that allows these calls; kernels need CONFIG_NUMA",
		    text);
	front_tell_state(parent);
	/* What serves already is not ended by what its replacement hears. */
	if (!parent->config.strict || parent->announced || parent->stopping)
		return;
	log_error("strict = yes, and placement can't be verified: %s", text);
	parent->exit_status = PARENT_EXIT_STRICT;
	parent_stop(parent);
}

int placement_refused_at_start(struct parent *parent, const struct refusals *refused, struct err *err)
{
	char text[REFUSALS_TEXT];
	if (!refusals_any(refused) || !parent->config.strict) {
		placement_refused(parent, refused);
		return 0;
	}
	parent->exit_status = PARENT_EXIT_STRICT;
	return err_set(err, -EPERM, "strict = yes, and placement can't be verified: the kernel refuses %s",
		       refusals_format(refused, text, sizeof text));
}

int placement_try(struct parent *parent, struct err *err)
{
	struct refusals refused = {{0}};
	int rc = refusals_probe((unsigned)idset_first(&parent->plan.copy_nodes), &refused);
	return rc ? err_set(err, rc, "trying NUMA calls: %s", strerror(-rc))
		  : placement_refused_at_start(parent, &refused, err);
}
