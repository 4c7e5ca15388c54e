/* The table of weightd.conf's keys and what is done with one key: read, print, say what is allowed. Private to
 * config*.c. */
#ifndef WEIGHTD_CONFIG_KEYS_H
#define WEIGHTD_CONFIG_KEYS_H

#include <stddef.h>

#include "src/config.h"

enum config_key_type { KEY_TEXT, KEY_NUMBER, KEY_SIZE, KEY_MODE, KEY_BOOL, KEY_WORD, KEY_IDS };

struct config_word {
	const char *word;
	uint32_t value;
};

struct config_key {
	const char *name;
	enum config_key_type type;
	size_t offset, size;   /* of the member in struct config, or config_model */
	uint64_t min, max;     /* KEY_NUMBER, KEY_SIZE; zero_word also allows 0 */
	const char *zero_word; /* KEY_NUMBER, KEY_SIZE, KEY_IDS: the word for 0 or the empty set; NULL: none */
	const struct config_word *words;		  /* KEY_WORD, ends with a NULL word */
	int (*check)(const char *value, struct err *err); /* KEY_TEXT */
	const char *allowed;				  /* KEY_TEXT: what `check` allows, for people */
	const char *fallback; /* the default, as written in a file; RUNTIME/, STATE/ and DATA/ in front are
			       * replaced by config_key_default */
	const char *help;     /* one or more sentences */
};

enum config_group { GROUP_SERVER, GROUP_PLACEMENT, GROUP_ENGINE, N_GROUPS };

struct config_section { /* of the table, for people; the file has only [weightd] */
	const char *title;
	const struct config_key *keys; /* ends with a NULL name */
};
extern const struct config_section config_sections[N_GROUPS];

/* Of a model's section, besides path and pull; ends with a NULL name. 0 is every default, as the word `fallback`. */
extern const struct config_key config_model_keys[];

/* NULL: no such key. */
const struct config_key *config_key_find(const char *name);
/* The default as it would be written, with these directories in place of the words. Returns `text`. */
struct config_directories {
	const char *runtime, *state, *data;
};
const char *config_key_default(const struct config_key *key, const struct config_directories *directories, char *text,
			       size_t size);
/* The known name nearest to `name`, or NULL when none is near. */
const char *config_key_nearest(const char *name);

/* Takes a value as written, for the struct that the key is of. On failure `err` has "what is wrong; what is allowed"
 * without the key's name. */
int config_key_set(const struct config_key *key, void *config, const char *value, struct err *err);
/* The member as it would be written. Returns `text`. */
const char *config_key_format(const struct config_key *key, const void *config, char *text, size_t size);
/* "one of auto, uring, epoll" and the like. Returns `text`. */
const char *config_key_allowed(const struct config_key *key, char *text, size_t size);

/* Characters of names that become parts of file names. `max` without the terminator. */
int config_check_name(const char *name, const char *extra, size_t max, struct err *err);

#endif
