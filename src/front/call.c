#include "src/front/call.h"

#include <errno.h>
#include <stdlib.h>

#include "src/front/roster.h"

int call_table_init(struct call_table *table, uint32_t n_expected)
{
	uint64_t n = 64;
	while (n < n_expected && n < 1u << 20)
		n *= 2;
	*table = (struct call_table){.bucket = calloc(n, sizeof *table->bucket), .mask = n - 1};
	return table->bucket ? 0 : -ENOMEM;
}

void call_table_fini(struct call_table *table)
{
	free(table->bucket);
	*table = (struct call_table){0};
}

/* Ids are consecutive, so their low bits spread them over the buckets as evenly as can be. */
static struct front_call **bucket_of(const struct call_table *table, uint64_t id)
{
	return &table->bucket[id & table->mask];
}

struct front_call *call_new(struct call_table *table)
{
	struct front_call *call = calloc(1, sizeof *call);
	if (!call)
		return NULL;
	call->id = ++table->last_id;
	struct front_call **bucket = bucket_of(table, call->id);
	call->chain = *bucket;
	*bucket = call;
	table->n++;
	return call;
}

void call_free(struct call_table *table, struct front_call *call)
{
	struct front_call **at = bucket_of(table, call->id);
	while (*at != call)
		at = &(*at)->chain;
	*at = call->chain;
	table->n--;
	api_json_fini(&call->bytes);
	free(call->options);
	roster_release(call->adapter);
	free(call);
}

struct front_call *call_find(const struct call_table *table, uint64_t id)
{
	struct front_call *call = *bucket_of(table, id);
	while (call && call->id != id)
		call = call->chain;
	return call;
}
