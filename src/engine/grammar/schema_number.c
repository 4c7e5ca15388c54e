/* Integers and numbers within bounds: a range of numbers as the choices of their digits. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "src/engine/grammar/schema.h"

#define LARGEST INT64_C(999999999999999) /* 15 digits: what every reader of JSON reads exactly */

/* Whole bounds; an excluded one is not in the range, though what lies next to it is. */
struct bounds {
	int64_t low, high;
	bool low_excluded, high_excluded;
};

static uint32_t digit_class(struct grammar *g, char first, char last)
{
	struct charset set = {0};
	if (first <= last)
		charset_add(&set, (uint32_t)first, (uint32_t)last);
	return grammar_class(g, &set);
}

/* Digits [n] from low to high, which are as long; a NULL bound is all zeros or all nines. */
static uint32_t digit_range(struct grammar *g, const char *low, const char *high, size_t n)
{
	if (!n || (!low && !high))
		return grammar_repeat(g, digit_class(g, '0', '9'), (uint32_t)n, (uint32_t)n);
	char first = low ? *low : '0', last = high ? *high : '9';
	const char *low_rest = low ? low + 1 : NULL, *high_rest = high ? high + 1 : NULL;
	uint32_t choice = grammar_choice(g), way;
	if (low && (first < last || !high || first == last)) {
		way = grammar_sequence(g);
		grammar_append(g, way, digit_class(g, first, first));
		grammar_append(g, way, digit_range(g, low_rest, high && first == last ? high_rest : NULL, n - 1));
		grammar_append(g, choice, way);
		first++;
	}
	if (high && *high >= first) {
		way = grammar_sequence(g);
		grammar_append(g, way, digit_class(g, last, last));
		grammar_append(g, way, digit_range(g, NULL, high_rest, n - 1));
		grammar_append(g, choice, way);
		last--;
	}
	if (first <= last) {
		way = grammar_sequence(g);
		grammar_append(g, way, digit_class(g, first, last));
		grammar_append(g, way, digit_range(g, NULL, NULL, n - 1));
		grammar_append(g, choice, way);
	}
	return choice;
}

/* The integers from low to high, both 0 or more, without a sign; none when low > high. */
static uint32_t natural_range(struct grammar *g, int64_t low, int64_t high)
{
	char from[24], to[24];
	uint32_t choice = grammar_choice(g);
	for (int64_t begin = low; begin <= high;) {
		int64_t power = 9;
		while (power < begin)
			power = power * 10 + 9;
		int64_t end = power < high ? power : high;
		snprintf(from, sizeof from, "%" PRId64, begin);
		snprintf(to, sizeof to, "%" PRId64, end);
		grammar_append(g, choice, digit_range(g, from, to, strlen(from)));
		begin = end + 1;
	}
	return choice;
}

/* Numbers of 0 or more: a whole part below the upper bound with any fraction, and the bounds themselves. */
static uint32_t decimal_range(struct grammar *g, const struct bounds *b)
{
	uint32_t choice = grammar_choice(g), way;
	int64_t from = b->low + b->low_excluded;
	if (b->high < b->low)
		return choice;
	way = grammar_sequence(g);
	uint32_t fraction = grammar_sequence(g);
	grammar_append(g, fraction, grammar_text(g, "."));
	grammar_append(g, fraction, grammar_repeat(g, digit_class(g, '0', '9'), 1, 15));
	grammar_append(g, way, natural_range(g, from, b->high - 1));
	grammar_append(g, way, grammar_repeat(g, fraction, 0, 1));
	grammar_append(g, choice, way);
	if (!b->high_excluded && b->high >= from)
		grammar_append(g, choice, natural_range(g, b->high, b->high));
	if (b->low_excluded && b->low < b->high) {
		way = grammar_sequence(g);
		grammar_append(g, way, natural_range(g, b->low, b->low));
		grammar_append(g, way, grammar_text(g, "."));
		grammar_append(g, way, grammar_repeat(g, digit_class(g, '0', '9'), 0, 14));
		grammar_append(g, way, digit_class(g, '1', '9'));
		grammar_append(g, choice, way);
	}
	return choice;
}

/* A bound as a whole number. For integers a fraction rounds into the range; numbers need whole bounds, since comparing
 * fractions digit by digit is not done here. */
static int read_bound(struct schema *s, yyjson_val *value, const char *word, bool integer, bool upper, int64_t *out,
		      bool *given)
{
	yyjson_val *bound = yyjson_obj_get(value, word);
	*given = bound != NULL;
	if (!bound)
		return 0;
	if (!yyjson_is_num(bound))
		return schema_fault(s, "'%s' must be a number", word);
	double number = yyjson_get_num(bound), whole = upper ? floor(number) : ceil(number);
	if (fabs(number) > (double)LARGEST)
		return schema_fault(s, "'%s' has more than 15 digits", word);
	if (whole != number && !integer)
		return schema_fault(s, "'%s' of a number must be a whole number to be enforced", word);
	*out = (int64_t)whole;
	/* 2.5 excluded is 3 included, for integers */
	if (whole != number && !strncmp(word, "exclusive", 9))
		*out += upper ? 1 : -1;
	return 0;
}

static int read_bounds(struct schema *s, yyjson_val *value, bool integer, struct bounds *b, bool *any)
{
	int64_t low = -LARGEST, low_open = 0, high = LARGEST, high_open = 0;
	bool given[4];
	int rc = read_bound(s, value, "minimum", integer, false, &low, &given[0]);
	if (!rc)
		rc = read_bound(s, value, "exclusiveMinimum", integer, false, &low_open, &given[1]);
	if (!rc)
		rc = read_bound(s, value, "maximum", integer, true, &high, &given[2]);
	if (!rc)
		rc = read_bound(s, value, "exclusiveMaximum", integer, true, &high_open, &given[3]);
	*any = given[0] || given[1] || given[2] || given[3];
	*b = (struct bounds){.low = low, .high = high};
	if (given[1] && low_open >= low) {
		b->low = low_open;
		b->low_excluded = true;
	}
	if (given[3] && high_open <= high) {
		b->high = high_open;
		b->high_excluded = true;
	}
	return rc;
}

/* The part of a range on one side of 0; the negative one turned around, for a sign in front. */
static struct bounds positive_part(struct bounds b)
{
	if (b.low < 0) {
		b.low = 0;
		b.low_excluded = false;
	}
	return b;
}

static struct bounds negative_part(struct bounds b)
{
	return positive_part((struct bounds){-b.high, -b.low, b.high_excluded, b.low_excluded});
}

static uint32_t part_of(struct grammar *g, struct bounds b, bool integer)
{
	if (integer)
		return natural_range(g, b.low + b.low_excluded, b.high - b.high_excluded);
	return decimal_range(g, &b);
}

int schema_number(struct schema *s, yyjson_val *value, bool integer, uint32_t *node)
{
	struct grammar *g = s->grammar;
	struct bounds b;
	bool any;
	int rc = read_bounds(s, value, integer, &b, &any);
	if (rc)
		return rc;
	if (!any) {
		*node = grammar_reference(g, integer ? s->integer : s->number);
		return 0;
	}
	bool empty = integer ? b.low + b.low_excluded > b.high - b.high_excluded
			     : b.low > b.high || (b.low == b.high && (b.low_excluded || b.high_excluded));
	if (empty)
		return schema_fault(s, "no number is within these bounds");
	uint32_t minus = grammar_sequence(g);
	grammar_append(g, minus, grammar_text(g, "-"));
	grammar_append(g, minus, part_of(g, negative_part(b), integer));
	*node = grammar_choice(g);
	grammar_append(g, *node, part_of(g, positive_part(b), integer));
	if (b.low < 0)
		grammar_append(g, *node, minus);
	return 0;
}
