#include "src/worker/worker_copies.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "numa/bind.h"

static int add_threads(struct worker_copies *c, const struct message_part *part, struct err *err)
{
	unsigned n_threads = c->n_threads + idset_count(&part->cpus);
	if (n_threads == c->n_threads)
		return err_set(err, -EINVAL, "the order names no CPU for the threads of node %u", part->node);
	struct worker_place *places = realloc(c->places, n_threads * sizeof *places);
	if (!places)
		return err_set(err, -ENOMEM, "no memory for the places of %u threads", n_threads);
	c->places = places;
	for (int cpu = idset_first(&part->cpus); cpu >= 0; cpu = idset_next(&part->cpus, cpu))
		c->places[c->n_threads++] =
			(struct worker_place){(uint16_t)cpu, (uint16_t)part->copy, (uint16_t)part->node};
	return 0;
}

static int attach(struct worker_copies *c, int fd, struct err *err)
{
	struct worker_copy *copies = realloc(c->copies, (c->n + 1) * sizeof *copies);
	if (!copies)
		return err_set(err, -ENOMEM, "no memory for the table of %u copies", c->n + 1);
	c->copies = copies;
	copies[c->n] = (struct worker_copy){.segment = {0}};
	int rc = segment_attach(fd, &copies[c->n].segment, err);
	c->n += !rc;
	return rc;
}

int worker_copies_add(struct worker_copies *c, const struct message_part *part, int fd, struct err *err)
{
	if (part->copy > c->n || (part->copy == c->n) != (fd >= 0) || part->node >= IDSET_MAX)
		return err_set(err, -EINVAL, "the order has a part of node %u for copy %u of %u", part->node,
			       part->copy, c->n);
	int rc = fd >= 0 ? attach(c, fd, err) : 0;
	return rc ? rc : add_threads(c, part, err);
}

int worker_copies_lock(const struct worker_copies *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (mlock(c->copies[i].segment.base, c->copies[i].segment.total_bytes))
			return -errno;
	return 0;
}

static int open_copy(struct worker_copies *c, struct worker_copy *copy, struct err *err)
{
	const struct segment_header *header = copy->segment.header, *first = c->copies[0].segment.header;
	if (header->pack_layout != IMAGE_VERSION)
		return err_set(err, -EINVAL, "the segment is packed in layout %u, this program reads %d; load it again",
			       header->pack_layout, IMAGE_VERSION);
	if (memcmp(header->digest, first->digest, sizeof header->digest) != 0)
		return err_set(err, -EINVAL, "copies 0 and %u hold different models", (unsigned)(copy - c->copies));
	return model_open((const char *)copy->segment.base + SEGMENT_HEADER_BYTES, header->payload_bytes, &copy->model,
			  err);
}

int worker_copies_open(struct worker_copies *c, struct err *err)
{
	for (uint32_t i = 0; i < c->n; i++) {
		int rc = open_copy(c, &c->copies[i], err);
		if (rc)
			return rc;
	}
	c->models = calloc(c->n_threads, sizeof *c->models);
	if (!c->models)
		return err_set(err, -ENOMEM, "no memory for the places of %u threads", c->n_threads);
	for (unsigned i = 0; i < c->n_threads; i++)
		c->models[i] = &c->copies[c->places[i].copy].model;
	return 0;
}

void worker_copies_fini(struct worker_copies *c)
{
	for (uint32_t i = 0; i < c->n; i++) {
		model_close(&c->copies[i].model);
		segment_detach(&c->copies[i].segment);
	}
	free(c->models);
	free(c->places);
	free(c->copies);
	*c = (struct worker_copies){0};
}

int worker_copies_start_thread(void *arg, unsigned thread)
{
	const struct worker_copies *c = arg;
	const struct worker_place *place = &c->places[thread];
	struct idset cpu;
	idset_clear(&cpu);
	idset_add(&cpu, place->cpu);
	int rc = bind_thread(&cpu, NULL);
	/* Where the kernel refuses it comes from the CPU's own node, as a rule: no reason not to serve. */
	if (!rc && !c->keep_policy)
		(void)bind_thread_memory(place->node, NULL);
	return rc;
}
