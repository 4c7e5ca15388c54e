/* A grammar under construction: what the readers of GBNF, regular expressions and JSON schemas build, and what becomes
 * a program (program.h).
 *
 * Rules have trees of nodes. A node has one parent; what is wanted twice is a rule and two references. Errors stick:
 * after one (out of memory, or larger than anybody needs) every call gives node 0 and changes nothing, so a reader
 * builds as if nothing could fail and grammar_fault is asked once, at the end. */
#ifndef WEIGHTD_ENGINE_GRAMMAR_NODES_H
#define WEIGHTD_ENGINE_GRAMMAR_NODES_H

#include <stddef.h>
#include <stdint.h>

#include "src/engine/grammar/charset.h"
#include "src/err.h"

enum { GRAMMAR_NODES_MAX = 1 << 17, GRAMMAR_RULES_MAX = 1 << 15, GRAMMAR_NAME_MAX = 48, GRAMMAR_DEPTH_MAX = 200 };
#define GRAMMAR_UNBOUNDED UINT32_MAX
#define GRAMMAR_NO_NODE UINT32_MAX

enum grammar_kind {
	GRAMMAR_SEQUENCE, /* its children, one after the other; none: the empty text */
	GRAMMAR_CHOICE,	  /* one of its children; none: no text at all */
	GRAMMAR_BYTES,	  /* bytes [a, a + b) of `bytes` */
	GRAMMAR_CLASS,	  /* one code point of ranges [a, a + b) of `ranges` */
	GRAMMAR_RULE,	  /* the text of rule a */
	GRAMMAR_REPEAT,	  /* its child a to b times; b GRAMMAR_UNBOUNDED: or more */
};

struct grammar_node {
	enum grammar_kind kind;
	uint32_t a, b;
	uint32_t first, last, next; /* children, and the next child of the same parent; GRAMMAR_NO_NODE: none */
};

struct grammar_rule {
	uint32_t node;		     /* GRAMMAR_NO_NODE: not defined yet */
	uint32_t next;		     /* for a reader that looks rules up by name */
	char name[GRAMMAR_NAME_MAX]; /* for messages, cut */
};

struct grammar {
	struct grammar_node *nodes; /* [n_nodes] all owned */
	struct grammar_rule *rules;
	struct charset_range *ranges;
	char *bytes;
	uint32_t n_nodes, n_rules, n_ranges, n_bytes;
	uint32_t nodes_capacity, rules_capacity, ranges_capacity, bytes_capacity;
	uint32_t root; /* the rule whose texts are wanted */
	int fault;
};

void grammar_fini(struct grammar *grammar); /* a zeroed grammar is an empty one */
/* 0, or what stuck, in words. */
int grammar_fault(const struct grammar *grammar, struct err *err);

uint32_t grammar_sequence(struct grammar *grammar);
uint32_t grammar_choice(struct grammar *grammar);
void grammar_append(struct grammar *grammar, uint32_t parent, uint32_t child); /* to a sequence or choice */
uint32_t grammar_bytes(struct grammar *grammar, const char *bytes, size_t n_bytes);
uint32_t grammar_text(struct grammar *grammar, const char *text); /* terminated */
uint32_t grammar_class(struct grammar *grammar, const struct charset *set);
uint32_t grammar_reference(struct grammar *grammar, uint32_t rule);
/* A node, then a rule's text. */
uint32_t grammar_then(struct grammar *grammar, uint32_t first, uint32_t rule);
uint32_t grammar_repeat(struct grammar *grammar, uint32_t child, uint32_t min, uint32_t max);

/* A new rule, to be defined once. */
uint32_t grammar_declare(struct grammar *grammar, const char *name, size_t n_name);
void grammar_define(struct grammar *grammar, uint32_t rule, uint32_t node);
/* Both at once. */
uint32_t grammar_rule(struct grammar *grammar, const char *name, uint32_t node);

#endif
