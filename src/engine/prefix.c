#include "src/engine/prefix.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS_MAX = 1 << 16 };

struct node {
	struct adapter_digest root;	    /* whose tree it is in */
	struct node *parent;		    /* NULL: the prompt begins here */
	struct node *next_in_bucket;	    /* of the hash table */
	struct node *more_used, *less_used; /* the list by use */
	struct kv_page *page;
	uint64_t hash; /* of all tokens up to the page's end */
	uint32_t n_children;
	uint32_t tokens[KV_PAGE_TOKENS];
};

struct prefix {
	struct kv *kv;	       /* borrowed */
	struct node **buckets; /* [n_buckets] owned, a power of two */
	uint32_t n_buckets;
	uint32_t n_nodes, max_nodes;
	struct node *most_used, *least_used;
};

int prefix_new(struct kv *kv, uint64_t max_bytes, struct prefix **out)
{
	uint64_t max_nodes = max_bytes / kv->page_bytes;
	if (max_nodes > kv->n_pages)
		max_nodes = kv->n_pages;
	if (!max_nodes) {
		*out = NULL;
		return 0;
	}
	struct prefix *prefix = calloc(1, sizeof *prefix);
	if (!prefix)
		return -ENOMEM;
	prefix->kv = kv;
	prefix->max_nodes = (uint32_t)max_nodes;
	for (prefix->n_buckets = 64; prefix->n_buckets < max_nodes && prefix->n_buckets < BUCKETS_MAX;)
		prefix->n_buckets *= 2;
	prefix->buckets = calloc(prefix->n_buckets, sizeof *prefix->buckets);
	if (!prefix->buckets) {
		free(prefix);
		return -ENOMEM;
	}
	*out = prefix;
	return 0;
}

/* --- finding ---------------------------------------------------------------------------------- */

/* Clients could make tokens that collide; what that costs is bounded by the number of nodes, each compared in some
 * nanoseconds. */
uint64_t prefix_hash(uint64_t hash, const uint32_t *tokens)
{
	for (uint32_t i = 0; i < KV_PAGE_TOKENS; i++) {
		hash = (hash ^ tokens[i]) *
		       UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio: odd, bits well mixed */
		hash ^= hash >> 29;
	}
	return hash;
}

static struct node **bucket_of(const struct prefix *prefix, uint64_t hash)
{
	return &prefix->buckets[hash & (prefix->n_buckets - 1)];
}

static uint64_t hash_below(struct adapter_digest root, const struct node *parent, const uint32_t *tokens)
{
	uint64_t hash;
	memcpy(&hash, &root, sizeof hash);
	return prefix_hash(parent ? parent->hash : hash, tokens);
}

static struct node *find(const struct prefix *prefix, struct adapter_digest root, const struct node *parent,
			 const uint32_t *tokens)
{
	uint64_t hash = hash_below(root, parent, tokens);
	struct node *node = *bucket_of(prefix, hash);
	while (node && (node->hash != hash || node->parent != parent || memcmp(&node->root, &root, sizeof root) ||
			memcmp(node->tokens, tokens, sizeof node->tokens)))
		node = node->next_in_bucket;
	return node;
}

uint32_t prefix_match(const struct prefix *prefix, struct adapter_digest root, const uint32_t *tokens,
		      uint32_t n_tokens, uint32_t *n_idle)
{
	const struct node *node = NULL;
	uint32_t n = 0, idle = 0;
	for (; prefix && n < n_tokens / KV_PAGE_TOKENS; n++) {
		node = find(prefix, root, node, tokens + (size_t)n * KV_PAGE_TOKENS);
		if (!node)
			break;
		idle += node->page->n_owners == 1;
	}
	*n_idle = idle;
	return n;
}

/* --- order of use ----------------------------------------------------------------------------- */

static void unlink_use(struct prefix *prefix, struct node *node)
{
	*(node->more_used ? &node->more_used->less_used : &prefix->most_used) = node->less_used;
	*(node->less_used ? &node->less_used->more_used : &prefix->least_used) = node->more_used;
}

/* Puts a node right behind `before`, NULL: in front of all. */
static void link_use(struct prefix *prefix, struct node *node, struct node *before)
{
	node->more_used = before;
	node->less_used = before ? before->less_used : prefix->most_used;
	*(before ? &before->less_used : &prefix->most_used) = node;
	*(node->less_used ? &node->less_used->more_used : &prefix->least_used) = node;
}

/* Moves a path to the front, its end first, so that its beginning ends up foremost. */
static void touch(struct prefix *prefix, struct node *end)
{
	for (struct node *node = end; node; node = node->parent) {
		unlink_use(prefix, node);
		link_use(prefix, node, NULL);
	}
}

/* --- coming and going ------------------------------------------------------------------------- */

static void drop(struct prefix *prefix, struct node *node)
{
	assert(!node->n_children);
	struct node **at = bucket_of(prefix, node->hash);
	while (*at != node)
		at = &(*at)->next_in_bucket;
	*at = node->next_in_bucket;
	unlink_use(prefix, node);
	if (node->parent)
		node->parent->n_children--;
	kv_uncache(prefix->kv, node->page);
	prefix->n_nodes--;
	free(node);
}

void prefix_free(struct prefix *prefix)
{
	if (!prefix)
		return;
	while (prefix->least_used)
		drop(prefix, prefix->least_used);
	free(prefix->buckets);
	free(prefix);
}

bool prefix_give_up(struct prefix *prefix)
{
	struct node *node = prefix ? prefix->least_used : NULL;
	while (node && node->page->n_owners > 1)
		node = node->more_used;
	if (node)
		drop(prefix, node);
	return node != NULL;
}

/* A node for the sequence's page that goes on from `parent`, the end of a path just touched. NULL: there is no room but
 * on that path itself, or no memory. */
static struct node *add(struct prefix *prefix, struct adapter_digest root, struct node *parent, struct kv_page *page,
			const uint32_t *tokens)
{
	if (prefix->n_nodes == prefix->max_nodes) {
		if (prefix->least_used == parent)
			return NULL;
		drop(prefix, prefix->least_used);
	}
	struct node *node = calloc(1, sizeof *node);
	if (!node)
		return NULL;
	node->parent = parent;
	node->page = page;
	node->root = root;
	node->hash = hash_below(root, parent, tokens);
	memcpy(node->tokens, tokens, sizeof node->tokens);
	struct node **bucket = bucket_of(prefix, node->hash);
	node->next_in_bucket = *bucket;
	*bucket = node;
	link_use(prefix, node, parent);
	if (parent)
		parent->n_children++;
	kv_cache(page);
	prefix->n_nodes++;
	return node;
}

uint32_t prefix_take(struct prefix *prefix, struct adapter_digest root, struct kv_sequence *sequence,
		     const uint32_t *tokens, uint32_t n_tokens)
{
	struct node *end = NULL;
	assert(!sequence->n_tokens);
	for (uint32_t n = 0; prefix && n < n_tokens / KV_PAGE_TOKENS; n++) {
		struct node *node = find(prefix, root, end, tokens + (size_t)n * KV_PAGE_TOKENS);
		if (!node || kv_adopt(prefix->kv, sequence, node->page))
			break;
		end = node;
	}
	if (end)
		touch(prefix, end);
	return sequence->n_pages;
}

void prefix_insert(struct prefix *prefix, struct adapter_digest root, struct kv_sequence *sequence,
		   const uint32_t *tokens, uint32_t n_tokens)
{
	struct node *end = NULL, *node;
	uint32_t n = 0, n_whole = n_tokens / KV_PAGE_TOKENS;
	if (!prefix)
		return;
	for (; n < n_whole && (node = find(prefix, root, end, tokens + (size_t)n * KV_PAGE_TOKENS)); n++) {
		kv_replace(prefix->kv, sequence, n, node->page);
		end = node;
	}
	if (end)
		touch(prefix, end);
	for (; n < n_whole; n++) {
		node = add(prefix, root, end, sequence->pages[n], tokens + (size_t)n * KV_PAGE_TOKENS);
		if (!node)
			return;
		end = node;
	}
}

uint64_t prefix_bytes(const struct prefix *prefix)
{
	return prefix ? prefix->n_nodes * (uint64_t)prefix->kv->page_bytes : 0;
}
