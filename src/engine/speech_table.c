#include "src/engine/speech_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static uint64_t table_bytes(const struct speech_table *table)
{
	return sizeof *table + table->n_languages * (uint64_t)sizeof(struct speech_language) +
	       ((uint64_t)table->n_suppressed + table->n_suppressed_begin) * sizeof(uint32_t) +
	       table->n_heads * (uint64_t)sizeof(struct speech_head);
}

uint64_t speech_table_bytes(const struct speech_source *source)
{
	return table_bytes(&source->table);
}

static char *put(char *at, const void *list, size_t n_bytes)
{
	if (n_bytes)
		memcpy(at, list, n_bytes);
	return at + n_bytes;
}

void speech_table_build(const struct speech_source *source, void *out)
{
	const struct speech_table *table = &source->table;
	char *at = put(out, table, sizeof *table);
	at = put(at, source->languages, table->n_languages * sizeof *source->languages);
	at = put(at, source->suppressed, table->n_suppressed * sizeof *source->suppressed);
	at = put(at, source->suppressed_begin, table->n_suppressed_begin * sizeof *source->suppressed_begin);
	put(at, source->heads, table->n_heads * sizeof *source->heads);
}

/* --- checking --------------------------------------------------------------------------------- */

static int check_token(const char *what, uint32_t id, const struct image_config *config, struct err *err)
{
	return id < config->vocab ? 0
				  : err_set(err, -EINVAL, "speech table: %s: token %u of a vocabulary of %u", what, id,
					    config->vocab);
}

static int check_specials(const struct speech_table *t, const struct image_config *config, struct err *err)
{
	const struct {
		const char *name;
		uint32_t id;
	} specials[] = {
		{"eot", t->eot},
		{"sot", t->sot},
		{"translate", t->translate},
		{"transcribe", t->transcribe},
		{"sot_lm", t->sot_lm},
		{"sot_prev", t->sot_prev},
		{"no_speech", t->no_speech},
		{"no_timestamps", t->no_timestamps},
		{"first_timestamp", t->first_timestamp},
	};
	enum { N_SPECIALS = sizeof specials / sizeof *specials };
	for (size_t i = 0; i < N_SPECIALS; i++) {
		int rc = check_token(specials[i].name, specials[i].id, config, err);
		if (rc)
			return rc;
		for (size_t j = 0; j < i; j++)
			if (specials[i].id == specials[j].id)
				return err_set(err, -EINVAL, "speech table: %s and %s are the same token, %u",
					       specials[j].name, specials[i].name, specials[i].id);
		if (i + 1 < N_SPECIALS && specials[i].id > t->first_timestamp)
			return err_set(err, -EINVAL, "speech table: %s is token %u, among the timestamps",
				       specials[i].name, specials[i].id);
	}
	if (t->is_multilingual > 1)
		return err_set(err, -EINVAL, "speech table: is_multilingual %u is neither 0 nor 1", t->is_multilingual);
	if (t->is_multilingual && !t->n_languages)
		return err_set(err, -EINVAL, "speech table: multilingual, but without languages");
	return 0;
}

static int check_language(const struct speech_language *language, uint32_t i, const struct image_config *config,
			  struct err *err)
{
	size_t n = 0;
	while (n < SPEECH_CODE_BYTES && language->code[n] >= 'a' && language->code[n] <= 'z')
		n++;
	bool is_code = n > 0 && n < SPEECH_CODE_BYTES;
	for (size_t k = n; k < SPEECH_CODE_BYTES; k++)
		is_code &= language->code[k] == '\0';
	if (!is_code)
		return err_set(err, -EINVAL, "speech table: language %u: its code is not made of letters", i);
	return check_token("a language", language->token, config, err);
}

static int check_lists(const struct speech_table *t, const struct image_config *config, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; i < t->n_languages && rc == 0; i++)
		rc = check_language(&speech_languages(t)[i], i, config, err);
	for (uint32_t i = 0; i < t->n_suppressed && rc == 0; i++)
		rc = check_token("suppressed", speech_suppressed(t)[i], config, err);
	for (uint32_t i = 0; i < t->n_suppressed_begin && rc == 0; i++)
		rc = check_token("suppressed at the beginning", speech_suppressed_begin(t)[i], config, err);
	for (uint32_t i = 0; i < t->n_heads && rc == 0; i++) {
		struct speech_head head = speech_heads(t)[i];
		if (head.layer >= config->n_layers || head.head >= config->n_heads)
			rc = err_set(err, -EINVAL, "speech table: head %u of layer %u, there are %u and %u", head.head,
				     head.layer, config->n_heads, config->n_layers);
	}
	return rc;
}

int speech_table_check(const void *table, uint64_t bytes, const struct image_config *config, struct err *err)
{
	const struct speech_table *t = table;
	if (bytes < sizeof *t || table_bytes(t) != bytes)
		return err_set(err, -EINVAL, "speech table: %" PRIu64 " bytes, expected %" PRIu64, bytes,
			       bytes < sizeof *t ? (uint64_t)sizeof *t : table_bytes(t));
	if (t->n_languages > SPEECH_MAX_LANGUAGES || t->n_suppressed > config->vocab ||
	    t->n_suppressed_begin > config->vocab || t->n_heads > config->n_layers * config->n_heads)
		return err_set(err, -EINVAL,
			       "speech table: %u languages, %u and %u suppressed tokens, %u heads: more than possible",
			       t->n_languages, t->n_suppressed, t->n_suppressed_begin, t->n_heads);
	int rc = check_specials(t, config, err);
	return rc ? rc : check_lists(t, config, err);
}
