#include "src/engine/grammar/nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 20 };

void grammar_fini(struct grammar *grammar)
{
	free(grammar->nodes);
	free(grammar->rules);
	free(grammar->ranges);
	free(grammar->bytes);
	*grammar = (struct grammar){0};
}

int grammar_fault(const struct grammar *grammar, struct err *err)
{
	if (grammar->fault == -E2BIG)
		return err_set(err, -E2BIG,
			       "the grammar is too large: more than %d parts, %d rules or %d bytes of text",
			       GRAMMAR_NODES_MAX, GRAMMAR_RULES_MAX, TEXT_MAX);
	if (grammar->fault)
		return err_set(err, grammar->fault, "out of memory for the grammar");
	return 0;
}

/* Room for `more` items; NULL: none, and that sticks. */
static void *room(struct grammar *g, void *items, uint32_t n, uint32_t *capacity, uint32_t max, size_t more,
		  size_t size)
{
	if (g->fault)
		return NULL;
	if (more > max - n) {
		g->fault = -E2BIG;
		return NULL;
	}
	if (n + more <= *capacity)
		return items;
	uint32_t wanted = *capacity ? *capacity : 64;
	while (wanted < n + more)
		wanted *= 2;
	void *grown = realloc(items, wanted * size);
	if (grown)
		*capacity = wanted;
	else
		g->fault = -ENOMEM;
	return grown;
}

static uint32_t new_node(struct grammar *g, enum grammar_kind kind, uint32_t a, uint32_t b)
{
	struct grammar_node *nodes =
		room(g, g->nodes, g->n_nodes, &g->nodes_capacity, GRAMMAR_NODES_MAX, 1, sizeof *nodes);
	if (!nodes)
		return 0;
	g->nodes = nodes;
	nodes[g->n_nodes] = (struct grammar_node){kind, a, b, GRAMMAR_NO_NODE, GRAMMAR_NO_NODE, GRAMMAR_NO_NODE};
	return g->n_nodes++;
}

uint32_t grammar_sequence(struct grammar *g)
{
	return new_node(g, GRAMMAR_SEQUENCE, 0, 0);
}

uint32_t grammar_choice(struct grammar *g)
{
	return new_node(g, GRAMMAR_CHOICE, 0, 0);
}

void grammar_append(struct grammar *g, uint32_t parent, uint32_t child)
{
	if (g->fault)
		return;
	struct grammar_node *p = &g->nodes[parent];
	if (p->first == GRAMMAR_NO_NODE)
		p->first = child;
	else
		g->nodes[p->last].next = child;
	p->last = child;
}

uint32_t grammar_bytes(struct grammar *g, const char *bytes, size_t n_bytes)
{
	char *all = room(g, g->bytes, g->n_bytes, &g->bytes_capacity, TEXT_MAX, n_bytes, 1);
	if (g->fault || !n_bytes)
		return grammar_sequence(g);
	g->bytes = all;
	memcpy(all + g->n_bytes, bytes, n_bytes);
	g->n_bytes += (uint32_t)n_bytes;
	return new_node(g, GRAMMAR_BYTES, g->n_bytes - (uint32_t)n_bytes, (uint32_t)n_bytes);
}

uint32_t grammar_text(struct grammar *g, const char *text)
{
	return grammar_bytes(g, text, strlen(text));
}

uint32_t grammar_class(struct grammar *g, const struct charset *set)
{
	if (!set->n)
		return grammar_choice(g);
	struct charset_range *ranges =
		room(g, g->ranges, g->n_ranges, &g->ranges_capacity, GRAMMAR_NODES_MAX, set->n, sizeof *ranges);
	if (!ranges)
		return 0;
	g->ranges = ranges;
	memcpy(ranges + g->n_ranges, set->ranges, set->n * sizeof *ranges);
	g->n_ranges += set->n;
	return new_node(g, GRAMMAR_CLASS, g->n_ranges - set->n, set->n);
}

uint32_t grammar_reference(struct grammar *g, uint32_t rule)
{
	return new_node(g, GRAMMAR_RULE, rule, 0);
}

uint32_t grammar_then(struct grammar *g, uint32_t first, uint32_t rule)
{
	uint32_t sequence = grammar_sequence(g);
	grammar_append(g, sequence, first);
	grammar_append(g, sequence, grammar_reference(g, rule));
	return sequence;
}

uint32_t grammar_repeat(struct grammar *g, uint32_t child, uint32_t min, uint32_t max)
{
	if (g->fault)
		return 0;
	/* What is to be there several times is there once, as a rule, and referred to. */
	if (g->nodes[child].kind != GRAMMAR_RULE && (min > 1 || (max != GRAMMAR_UNBOUNDED && max > 1)))
		child = grammar_reference(g, grammar_rule(g, "a repeated part", child));
	uint32_t node = new_node(g, GRAMMAR_REPEAT, min, max);
	grammar_append(g, node, child);
	return node;
}

uint32_t grammar_declare(struct grammar *g, const char *name, size_t n_name)
{
	struct grammar_rule *rules =
		room(g, g->rules, g->n_rules, &g->rules_capacity, GRAMMAR_RULES_MAX, 1, sizeof *rules);
	if (!rules)
		return 0;
	g->rules = rules;
	struct grammar_rule *rule = &rules[g->n_rules];
	rule->node = GRAMMAR_NO_NODE;
	snprintf(rule->name, sizeof rule->name, "%.*s", n_name < sizeof rule->name ? (int)n_name : GRAMMAR_NAME_MAX,
		 name);
	return g->n_rules++;
}

void grammar_define(struct grammar *g, uint32_t rule, uint32_t node)
{
	if (!g->fault)
		g->rules[rule].node = node;
}

uint32_t grammar_rule(struct grammar *g, const char *name, uint32_t node)
{
	uint32_t rule = grammar_declare(g, name, strlen(name));
	grammar_define(g, rule, node);
	return rule;
}
