/* One value: text to member and back. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/config_keys.h"

static const struct {
	char letter;
	unsigned shift;
} suffixes[] = {{'T', 40}, {'G', 30}, {'M', 20}, {'K', 10}};
enum { N_SUFFIXES = sizeof suffixes / sizeof suffixes[0] };

/* "4M" for round sizes, else the number. */
static const char *format_size(uint64_t bytes, char *text, size_t size)
{
	for (unsigned i = 0; i < N_SUFFIXES; i++)
		if (bytes && (bytes & ((UINT64_C(1) << suffixes[i].shift) - 1)) == 0) {
			snprintf(text, size, "%" PRIu64 "%c", bytes >> suffixes[i].shift, suffixes[i].letter);
			return text;
		}
	snprintf(text, size, "%" PRIu64, bytes);
	return text;
}

/* Decimal digits and nothing else, or with `suffix` room for one letter behind them. */
static int parse_number(const char *value, const char **rest, uint64_t *out)
{
	char *end;
	if (!isdigit((unsigned char)value[0]))
		return -EINVAL;
	errno = 0;
	*out = strtoumax(value, &end, 10);
	*rest = end;
	return errno ? -ERANGE : 0;
}

static int parse_size(const char *value, uint64_t *out)
{
	const char *rest;
	int rc = parse_number(value, &rest, out);
	if (rc < 0 || !*rest)
		return rc;
	for (unsigned i = 0; i < N_SUFFIXES; i++) {
		if (toupper((unsigned char)rest[0]) != suffixes[i].letter)
			continue;
		if (rest[1] && strcasecmp(rest + 1, "iB"))
			return -EINVAL;
		if (*out > UINT64_MAX >> suffixes[i].shift)
			return -ERANGE;
		*out <<= suffixes[i].shift;
		return 0;
	}
	return -EINVAL;
}

static int parse_plain(const char *value, uint64_t *out)
{
	const char *rest;
	int rc = parse_number(value, &rest, out);
	return rc < 0 ? rc : *rest ? -EINVAL : 0;
}

static int parse_bool(const char *value, bool *out)
{
	static const char *const yes[] = {"yes", "true", "on", "1"}, *const no[] = {"no", "false", "off", "0"};
	for (unsigned i = 0; i < 4; i++)
		if (!strcasecmp(value, yes[i]) || !strcasecmp(value, no[i])) {
			*out = !strcasecmp(value, yes[i]);
			return 0;
		}
	return -EINVAL;
}

/* What is written to a number's member; the members are uint32_t or uint64_t. */
static void store(const struct config_key *key, void *member, uint64_t number)
{
	if (key->size == sizeof(uint32_t))
		*(uint32_t *)member = (uint32_t)number;
	else
		*(uint64_t *)member = number;
}

static uint64_t fetch(const struct config_key *key, const void *member)
{
	return key->size == sizeof(uint32_t) ? *(const uint32_t *)member : *(const uint64_t *)member;
}

const char *config_key_default(const struct config_key *key, const struct config_directories *directories, char *text,
			       size_t size)
{
	const char *rest = strchr(key->fallback, '/'), *directory = NULL;
	if (!strncmp(key->fallback, "RUNTIME/", 8))
		directory = directories->runtime;
	else if (!strncmp(key->fallback, "STATE/", 6))
		directory = directories->state;
	else if (!strncmp(key->fallback, "DATA/", 5))
		directory = directories->data;
	snprintf(text, size, "%s%s", directory ? directory : "", directory ? rest : key->fallback);
	return text;
}

const char *config_key_allowed(const struct config_key *key, char *text, size_t size)
{
	char low[24], high[24];
	const char *zero = key->zero_word ? key->zero_word : "", * or = key->zero_word ? " or " : "";
	text[0] = '\0';
	switch (key->type) {
	case KEY_TEXT:
		snprintf(text, size, "%s", key->allowed);
		break;
	case KEY_NUMBER:
		snprintf(text, size, "%s%s%" PRIu64 " to %" PRIu64, zero, or, key->min, key->max);
		break;
	case KEY_SIZE:
		snprintf(text, size, "%s%s%s to %s", zero, or, format_size(key->min, low, sizeof low),
			 format_size(key->max, high, sizeof high));
		break;
	case KEY_MODE:
		snprintf(text, size, "octal, 0600 to 0777");
		break;
	case KEY_BOOL:
		snprintf(text, size, "yes or no");
		break;
	case KEY_IDS:
		snprintf(text, size, "%s%sa list such as 0-3,8", zero, or);
		break;
	case KEY_WORD:
		for (const struct config_word *word = key->words; word->word; word++) {
			size_t used = strlen(text);
			snprintf(text + used, size - used, "%s%s", used ? ", " : "one of ", word->word);
		}
		break;
	}
	return text;
}

static int set_text(const struct config_key *key, void *member, const char *value, struct err *err)
{
	if (strlen(value) >= key->size)
		return err_set(err, -ENAMETOOLONG, "longer than %zu characters", key->size - 1);
	int rc = key->check(value, err);
	if (rc == 0)
		strcpy(member, value);
	return rc;
}

/* KEY_NUMBER and KEY_SIZE: the number or its zero word. */
static int set_number(const struct config_key *key, void *member, const char *value)
{
	uint64_t number;
	if (key->zero_word && (!strcmp(value, key->zero_word) || !strcmp(value, "0"))) {
		store(key, member, 0);
		return 0;
	}
	int rc = key->type == KEY_SIZE ? parse_size(value, &number) : parse_plain(value, &number);
	if (rc == 0 && (number < key->min || number > key->max))
		rc = -ERANGE;
	if (rc == 0)
		store(key, member, number);
	return rc;
}

static int set_mode(void *member, const char *value)
{
	size_t n = strlen(value);
	if (n < 3 || n > 4 || strspn(value, "01234567") != n)
		return -EINVAL;
	uint32_t mode = (uint32_t)strtoul(value, NULL, 8);
	if (mode > 0777 || (mode & 0600) != 0600)
		return -ERANGE;
	*(uint32_t *)member = mode;
	return 0;
}

static int set_word(const struct config_key *key, void *member, const char *value)
{
	for (const struct config_word *word = key->words; word->word; word++)
		if (!strcmp(word->word, value)) {
			store(key, member, word->value);
			return 0;
		}
	return -EINVAL;
}

static int set_ids(const struct config_key *key, struct idset *member, const char *value, struct err *err)
{
	struct idset set;
	idset_clear(&set);
	if (strcmp(value, key->zero_word)) {
		int rc = idset_parse(value, &set, err);
		if (rc < 0)
			return rc;
	}
	*member = set;
	return 0;
}

int config_key_set(const struct config_key *key, void *config, const char *value, struct err *err)
{
	void *member = (char *)config + key->offset;
	char allowed[128];
	int rc = -EINVAL;
	switch (key->type) {
	case KEY_TEXT:
		return set_text(key, member, value, err);
	case KEY_IDS:
		return set_ids(key, member, value, err);
	case KEY_NUMBER:
	case KEY_SIZE:
		rc = set_number(key, member, value);
		break;
	case KEY_MODE:
		rc = set_mode(member, value);
		break;
	case KEY_BOOL:
		rc = parse_bool(value, member);
		break;
	case KEY_WORD:
		rc = set_word(key, member, value);
		break;
	}
	if (rc < 0)
		return err_set(err, rc, "'%.40s' is %s; allowed: %s", value,
			       rc == -ERANGE ? "out of range" : "not understood",
			       config_key_allowed(key, allowed, sizeof allowed));
	return 0;
}

const char *config_key_format(const struct config_key *key, const void *config, char *text, size_t size)
{
	const void *member = (const char *)config + key->offset;
	text[0] = '\0';
	switch (key->type) {
	case KEY_TEXT:
		snprintf(text, size, "%s", (const char *)member);
		break;
	case KEY_BOOL:
		snprintf(text, size, "%s", *(const bool *)member ? "yes" : "no");
		break;
	case KEY_MODE:
		snprintf(text, size, "%04o", *(const uint32_t *)member);
		break;
	case KEY_IDS:
		if (idset_count(member) == 0)
			snprintf(text, size, "%s", key->zero_word);
		else
			idset_format(member, text, size);
		break;
	case KEY_NUMBER:
	case KEY_SIZE:
		if (fetch(key, member) == 0 && key->zero_word)
			snprintf(text, size, "%s", key->zero_word);
		else if (key->type == KEY_SIZE)
			format_size(fetch(key, member), text, size);
		else
			snprintf(text, size, "%" PRIu64, fetch(key, member));
		break;
	case KEY_WORD:
		for (const struct config_word *word = key->words; word->word; word++)
			if (word->value == (uint32_t)fetch(key, member))
				snprintf(text, size, "%s", word->word);
		break;
	}
	return text;
}
