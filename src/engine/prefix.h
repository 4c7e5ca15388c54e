/* The prefix cache: KV pages of prompts, kept for later prompts that begin alike.
 *
 * A tree whose nodes are pages: a node stands for 32 tokens after those of its parent, so a page is found by all tokens
 * up to its end. It is looked up in a hash table by parent and tokens; both are compared, the hash alone is never an
 * identity. Keys and values of a prompt depend on its tokens and its adapter alone (one numerics class, one order of
 * sums), so an answer has the same bits whether its pages came from here or were computed. There is a tree for each
 * adapter, whose contents' digest is the identity of its root; calls without one are in the tree of the zero digest.
 *
 * Whose memory. There is one pool (kv.h); the cache is an owner of pages like a sequence, and what it holds counts in
 * n_used. It is bounded twice: by max_bytes, counting every page in the tree whoever else holds it, and by the calls,
 * which get its idle pages (those it alone holds) back one by one as soon as the pool is empty. Nodes besides pages
 * cost some 200 bytes each. No cache (a NULL prefix) costs nothing.
 *
 * Which go first. All nodes are in one list by use, and a node is always used more recently than its children: a path
 * is touched from its end to its beginning. So the list's last node is a leaf, and dropping it leaves no orphans. And a
 * sequence that holds a node's page holds those of all its ancestors (it adopted the path, or swapped its own pages for
 * the tree's when it was inserted), so below an idle node all are idle, and the last idle node of the list is a leaf,
 * too. */
#ifndef WEIGHTD_ENGINE_PREFIX_H
#define WEIGHTD_ENGINE_PREFIX_H

#include "src/engine/adapter_image.h"
#include "src/engine/kv.h"

struct prefix; /* one per worker */

/* A cache of at most max_bytes of pages. *out is NULL when that is less than one page: every function below takes NULL
 * as a cache that is always empty. 0 or -ENOMEM. */
int prefix_new(struct kv *kv, uint64_t max_bytes, struct prefix **out);
void prefix_free(struct prefix *prefix); /* lets go of its pages; takes NULL */

/* `root` in what follows: the adapter whose tree it is about (adapter_digest_of). */

/* How many whole pages of `tokens` [n_tokens] are here, from the first on without a gap; *n_idle of them are idle. */
uint32_t prefix_match(const struct prefix *prefix, struct adapter_digest root, const uint32_t *tokens,
		      uint32_t n_tokens, uint32_t *n_idle);

/* The empty sequence adopts those pages. Returns how many; fewer than there are when memory for its list is out. */
uint32_t prefix_take(struct prefix *prefix, struct adapter_digest root, struct kv_sequence *sequence,
		     const uint32_t *tokens, uint32_t n_tokens);

/* Takes in the whole pages of `tokens` [n_tokens], which are the beginning of the sequence, all of prefill class. Where
 * the tree has a page for the same tokens the sequence goes on with that one and its own is freed. */
void prefix_insert(struct prefix *prefix, struct adapter_digest root, struct kv_sequence *sequence,
		   const uint32_t *tokens, uint32_t n_tokens);

/* Gives the idle page that was not used for longest back to the pool. False: there is none. */
bool prefix_give_up(struct prefix *prefix);

/* Where a node is looked up: a page's hash goes on from its parent's, the first one's from the first 8 bytes of the
 * root. Public for the test that makes pages collide. */
uint64_t prefix_hash(uint64_t hash, const uint32_t *tokens);

/* Bytes of the pages in the tree. */
uint64_t prefix_bytes(const struct prefix *prefix);

#endif
