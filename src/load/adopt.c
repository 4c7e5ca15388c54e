/* The order of an adoption, and why:
 *
 *   order checked -> every node's candidates checked, nodes beside each other -> copies held against each other ->
 *   what is not adopted removed -> missing copies made from an adopted one -> handed over, all or none
 *
 * Removal comes before making copies, because both want the same names. The threads are there for the hash: it is bound
 * by a node's memory, and nodes have their own. */
#include "src/load/adopt.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "numa/topology.h"
#include "src/engine/family.h"
#include "src/engine/image.h"
#include "src/load/load_order.h"

/* One node's part. */
struct node_check {
	/* given */
	const struct message_adopt *order;
	unsigned node;
	struct adopt_candidate *candidates; /* [n] of all nodes: a thread writes to its node's only */
	uint32_t n;
	pthread_t thread;
	/* found */
	struct adopt_candidate *accepted; /* NULL: none */
	struct segment_view view;	  /* attached while something is accepted */
	struct segment_report report;
};

struct adoption {
	const struct message_adopt *order;
	struct adopt_candidate *candidates;
	uint32_t n_candidates;
	struct topology *topology;
	struct node_check checks[LOAD_NODES_MAX]; /* [order->load.n_nodes] */
	const struct node_check *first;		  /* the first node with an accepted copy */
};

static const void *image_of(const struct segment_view *view)
{
	return (const char *)view->base + SEGMENT_HEADER_BYTES;
}

/* A copy that would only make workers fail is none. */
static int check_one(struct node_check *check, struct adopt_candidate *candidate, struct err *err)
{
	struct segment_spec wanted;
	struct segment_view view;
	struct segment_report report;
	load_order_spec(&check->order->load, check->node, &check->order->source, &wanted);
	wanted.generation = candidate->generation;
	int rc = segment_adopt(candidate->fd, candidate->name, &wanted, &view, &report, err);
	if (rc)
		return rc;
	rc = image_check(image_of(&view), view.header->payload_bytes, err);
	const struct image_header *image = image_of(&view);
	if (!rc && image->image_bytes != view.header->payload_bytes)
		rc = err_set(err, -EINVAL, "its image is not all of its payload");
	if (rc) {
		segment_detach(&view);
		return rc;
	}
	check->accepted = candidate;
	check->view = view;
	check->report = report;
	return 0;
}

static void *check_node(void *argument)
{
	struct node_check *check = argument;
	for (uint32_t i = 0; i < check->n; i++) {
		struct adopt_candidate *candidate = &check->candidates[i];
		if (candidate->node != check->node)
			continue;
		if (check->accepted)
			err_set(&candidate->refusal, 0, "the node has another copy already");
		else
			check_one(check, candidate, &candidate->refusal);
	}
	return NULL;
}

static int start_check(const struct adoption *adoption, struct node_check *check, struct err *err)
{
	struct idset cpus;
	pthread_attr_t attributes;
	int rc = load_order_cpus(adoption->topology, &adoption->order->load, check->node, &cpus, err);
	if (rc)
		return rc;
	rc = pthread_attr_init(&attributes);
	if (!rc) {
		rc = pthread_attr_setaffinity_np(&attributes, sizeof cpus, (const cpu_set_t *)&cpus);
		if (!rc)
			rc = pthread_create(&check->thread, &attributes, check_node, check);
		pthread_attr_destroy(&attributes);
	}
	return rc ? err_set(err, -rc, "a checking thread on node %u: %s", check->node, strerror(rc)) : 0;
}

static int check_nodes(struct adoption *adoption, struct err *err)
{
	const struct message_load *load = &adoption->order->load;
	uint32_t n_started = 0;
	int rc = 0;
	while (n_started < load->n_nodes && !rc) {
		struct node_check *check = &adoption->checks[n_started];
		*check = (struct node_check){.order = adoption->order,
					     .node = load->node[n_started],
					     .candidates = adoption->candidates,
					     .n = adoption->n_candidates};
		rc = start_check(adoption, check, err);
		n_started += !rc;
	}
	for (uint32_t i = 0; i < n_started; i++)
		pthread_join(adoption->checks[i].thread, NULL);
	return rc;
}

static void refuse(struct node_check *check, const char *why)
{
	if (!check->accepted)
		return;
	segment_detach(&check->view);
	err_set(&check->accepted->refusal, 0, "%s", why);
	check->accepted = NULL;
}

/* Each copy is what its own header says. Together they are one model only if they are the same. */
static void compare(struct adoption *adoption)
{
	uint32_t n_nodes = adoption->order->load.n_nodes;
	bool differ = false;
	for (uint32_t i = 0; i < n_nodes; i++) {
		const struct node_check *check = &adoption->checks[i];
		if (check->accepted && !adoption->first)
			adoption->first = check;
		else if (check->accepted)
			differ |=
				memcmp(check->report.digest, adoption->first->report.digest, SEGMENT_DIGEST_BYTES) != 0;
	}
	for (uint32_t i = 0; i < n_nodes && differ; i++)
		refuse(&adoption->checks[i], "it differs from another node's copy");
	if (differ)
		adoption->first = NULL;
}

static void remove_refused(const struct adoption *adoption)
{
	for (uint32_t i = 0; i < adoption->n_candidates; i++) {
		struct adopt_candidate *candidate = &adoption->candidates[i];
		bool accepted = false;
		for (uint32_t k = 0; k < adoption->order->load.n_nodes; k++)
			accepted |= adoption->checks[k].accepted == candidate;
		if (accepted)
			continue;
		if (!candidate->refusal.text[0])
			err_set(&candidate->refusal, 0, "no copy is wanted on node %u", candidate->node);
		if (candidate->name[0])
			shm_unlink(candidate->name);
	}
}

static void describe(const struct adoption *adoption, const struct node_check *check, struct message_segment *out)
{
	const struct image_header *image = image_of(&adoption->first->view);
	const struct family *family = family_get(image->config.family); /* image_check knows it */
	memset(out, 0, sizeof *out);
	out->node = check->node;
	out->backing = adoption->order->load.backing;
	out->generation = check->accepted ? check->accepted->generation : adoption->order->load.generation;
	out->context = image->config.context;
	out->mel_bins = image->config.mel_bins;
	snprintf(out->architecture, sizeof out->architecture, "%s", family->name);
}

/* A copy for a node that has none, made like the others of a load. */
static int make_copy(const struct adoption *adoption, const struct node_check *check, struct message_segment *out,
		     int *fd, struct err *err)
{
	const struct segment_view *from = &adoption->first->view;
	struct segment_spec spec;
	struct segment made;
	struct idset cpus;
	load_order_spec(&adoption->order->load, check->node, &adoption->order->source, &spec);
	spec.payload_bytes = from->header->payload_bytes;
	spec.cpus = &cpus;
	int rc = load_order_cpus(adoption->topology, &adoption->order->load, check->node, &cpus, err);
	if (!rc)
		rc = segment_create(&spec, &made, err);
	if (rc)
		return rc;
	rc = segment_copy(&made, from->base, from->total_bytes, &cpus, err);
	if (rc) {
		segment_destroy(&made);
		return rc;
	}
	describe(adoption, check, out);
	memcpy(out->name, made.name, sizeof out->name);
	rc = segment_publish(&made, fd, &out->report, err);
	if (rc)
		return rc;
	if (!memcmp(out->report.digest, adoption->first->report.digest, SEGMENT_DIGEST_BYTES))
		return 0;
	close(*fd);
	if (out->name[0])
		shm_unlink(out->name);
	return err_set(err, -EIO, "node %u: the copy differs from the one on node %u", check->node,
		       adoption->first->node);
}

static int collect(struct adoption *adoption, struct loaded *out, struct err *err)
{
	struct loaded loaded = {.n = 0};
	for (uint32_t i = 0; i < adoption->order->load.n_nodes; i++) {
		struct node_check *check = &adoption->checks[i];
		struct message_segment *segment = &loaded.segments[i];
		int rc = 0;
		if (check->accepted) {
			describe(adoption, check, segment);
			memcpy(segment->name, check->accepted->name, sizeof segment->name);
			segment->adopted = 1;
			segment->report = check->report;
			loaded.fds[i] = check->accepted->fd;
			check->accepted->fd = -1;
		} else {
			rc = make_copy(adoption, check, segment, &loaded.fds[i], err);
		}
		if (rc) {
			loaded_discard(&loaded);
			return rc;
		}
		loaded.n = i + 1;
	}
	*out = loaded;
	return 0;
}

/* After a failure the same names are needed for a load. */
static void refuse_all(struct adoption *adoption, const struct err *why)
{
	for (uint32_t i = 0; i < adoption->order->load.n_nodes; i++)
		refuse(&adoption->checks[i], why->text);
	remove_refused(adoption);
}

int model_adopt(const struct message_adopt *order, struct adopt_candidate *candidates, uint32_t n, struct loaded *out,
		struct err *err)
{
	struct adoption adoption = {.order = order, .candidates = candidates, .n_candidates = n};
	struct err why = {""};
	int rc = load_order_check(&order->load, err);
	if (rc)
		return rc;
	rc = topology_load(NULL, &adoption.topology, &why);
	if (!rc)
		rc = check_nodes(&adoption, &why);
	if (!rc) {
		compare(&adoption);
		remove_refused(&adoption);
		if (!adoption.first)
			rc = err_set(&why, -ENOENT, "nothing that an earlier daemon left can be used");
	}
	if (!rc)
		rc = collect(&adoption, out, &why);
	if (rc)
		refuse_all(&adoption, &why);
	for (uint32_t i = 0; i < order->load.n_nodes; i++)
		segment_detach(&adoption.checks[i].view);
	topology_free(adoption.topology);
	return rc ? err_set(err, rc, "%s", why.text) : 0;
}
