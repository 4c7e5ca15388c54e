/* Unicode's normalization form C: what some vocabularies were trained on, where a letter and its accent are one
 * character if there is one for both.
 *
 * A text falls into parts that do not touch each other: a character that never joins one before it, and those behind it
 * that may. Nearly all parts of nearly all texts are one character that stays as it is, so a text is first only looked
 * at; what must change is decomposed, its marks ordered, composed, and put into a copy. A text that is in the form
 * already is never copied.
 *
 * utf8proc knows the characters; the algorithm around them is here, because its own orders marks by exchanging
 * neighbours, which a text of a million marks makes take minutes, and cannot stop halfway.
 *
 * Source: Unicode Standard Annex 15. */
#ifndef WEIGHTD_ENGINE_TOKENIZER_NFC_H
#define WEIGHTD_ENGINE_TOKENIZER_NFC_H

#include <stddef.h>
#include <stdint.h>

enum nfc_phase { NFC_SCAN, NFC_DECOMPOSE, NFC_COMPOSE, NFC_WRITE };

/* Zeroed to begin with; then one text after another. */
struct nfc {
	const char *start, *end; /* the text, borrowed */
	const char *at;		 /* not looked at from here on */
	const char *part;	 /* where the newest part begins */
	const char *uncopied;	 /* what is neither in the copy nor to be changed begins here */
	enum nfc_phase phase;
	uint32_t *points; /* [n_points] owned: one part's characters, their combining classes in the upper eight bits */
	size_t n_points, points_capacity;
	size_t n_read, n_kept, starter; /* while composing: looked at, left, and the place of the last starter */
	char *copy;			/* [n_copy] owned */
	size_t n_copy, copy_capacity;
};

/* Starts on a text of well-formed UTF-8, which is borrowed until its result is not needed any more. */
void nfc_begin(struct nfc *nfc, const char *text, size_t n_bytes);
/* Goes on for *work characters, which is counted down. Returns 1: there is more to do; 0: done; -ENOMEM. */
int nfc_advance(struct nfc *nfc, size_t *work);
/* What became of it: a view of the text itself or of a copy, valid until the next begin. */
const char *nfc_result(const struct nfc *nfc, size_t *n_bytes);
void nfc_fini(struct nfc *nfc);

#endif
