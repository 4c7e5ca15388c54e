#include "src/engine/template/iter.h"

#include "src/engine/template/render.h"

static int next_of_list(struct render *r, struct iter *iter, struct value *item)
{
	(void)r;
	const struct list *list = iter->source.list;
	if (iter->position >= list->n)
		return 0;
	*item = list->items[iter->position++];
	return 1;
}

static int next_of_text(struct render *r, struct iter *iter, struct value *item)
{
	const struct text *text = iter->source.text;
	if (iter->position >= text->n_bytes)
		return 0;
	const char *start = text->bytes + iter->position, *end = start;
	text_next_char(&end);
	iter->position += (size_t)(end - start);
	int rc = render_text_view(r, start, (size_t)(end - start), item);
	return rc ? rc : 1;
}

static int next_of_dict(struct render *r, struct iter *iter, struct value *item)
{
	const struct dict *dict = iter->source.dict;
	if (iter->position >= dict->n)
		return 0;
	const struct dict_entry *entry = &dict->entries[iter->position++];
	if (iter->source.kind == VALUE_ITEMS) {
		int rc = value_pair(r, entry->key, entry->value, item);
		return rc ? rc : 1;
	}
	*item = iter->source.kind == VALUE_VALUES ? entry->value : entry->key;
	return 1;
}

static int next_of_range(struct render *r, struct iter *iter, struct value *item)
{
	(void)r;
	const struct range *range = iter->source.range;
	if ((int64_t)iter->position >= range->n)
		return 0;
	/* Unsigned, because the product alone may not fit although the sum does. */
	*item = value_int((int64_t)((uint64_t)range->start + (uint64_t)iter->position++ * (uint64_t)range->step));
	return 1;
}

static int next_of_nothing(struct render *r, struct iter *iter, struct value *item)
{
	(void)r, (void)iter, (void)item;
	return 0;
}

bool iter_possible(struct value value)
{
	return value_length(value) >= 0 || value.kind == VALUE_ITER || value.kind == VALUE_LOOP;
}

static int make(struct render *r, struct iter from, struct iter **iter)
{
	struct iter *made = heap_cells(&r->heap, 1, sizeof *made);
	if (!made)
		return render_oom(r);
	*made = from;
	*iter = made;
	return 0;
}

int iter_start(struct render *r, struct value value, struct iter **iter)
{
	struct iter start = {.source = value};
	switch (value.kind) {
	case VALUE_ITER:
		*iter = value.iter;
		return 0;
	case VALUE_LIST:
	case VALUE_TUPLE:
		start.next = next_of_list;
		break;
	case VALUE_TEXT:
		start.next = next_of_text;
		break;
	case VALUE_DICT:
	case VALUE_KEYS:
	case VALUE_VALUES:
	case VALUE_ITEMS:
		start.next = next_of_dict;
		break;
	case VALUE_RANGE:
		start.next = next_of_range;
		break;
	case VALUE_UNDEFINED:
		start.next = next_of_nothing;
		break;
	case VALUE_LOOP:
		return render_unsupported(r, "iterating over `loop`");
	default:
		return render_fail(r, "'%s' object is not iterable", value_type_name(value));
	}
	return make(r, start, iter);
}

int iter_next(struct render *r, struct iter *iter, struct value *item)
{
	if (iter->finished)
		return 0;
	int more = render_charge(r, 1);
	more = more ? more : render_enter(r); /* filters over filters over … */
	if (more)
		return more;
	more = iter->next(r, iter, item);
	r->depth--;
	iter->finished = more == 0;
	return more;
}

int iter_collect(struct render *r, struct iter *iter, struct list **list)
{
	struct list *all = list_new(r, 0);
	if (!all)
		return render_oom(r);
	struct value item;
	int more;
	while ((more = iter_next(r, iter, &item)) > 0) {
		int rc = list_append(r, all, item);
		if (rc)
			return rc;
	}
	*list = all;
	return more;
}

int iter_list(struct render *r, struct value value, const struct list **list)
{
	if (value.kind == VALUE_LIST || value.kind == VALUE_TUPLE) {
		*list = value.list;
		return 0;
	}
	struct iter *iter = NULL;
	struct list *all = NULL;
	int rc = iter_start(r, value, &iter);
	rc = rc ? rc : iter_collect(r, iter, &all);
	if (!rc)
		*list = all;
	return rc;
}

/* --- backwards -------------------------------------------------------------------------------- */

static int next_reversed(struct render *r, struct iter *iter, struct value *item)
{
	const struct list *list = iter->source.list;
	(void)r;
	if (iter->position >= list->n)
		return 0;
	*item = list->items[list->n - ++iter->position];
	return 1;
}

int iter_reversed(struct render *r, struct value value, struct iter **iter)
{
	*iter = NULL;
	if (value.kind == VALUE_ITER)
		return 0;
	if (value_length(value) < 0)
		return render_fail(r, "'%s' object is not reversible", value_type_name(value));
	const struct list *list;
	int rc = iter_list(r, value, &list);
	if (rc)
		return rc;
	if (value.kind == VALUE_TEXT && value.text->markup) /* indexed, so its characters are markup too */
		for (size_t i = 0; i < list->n && !rc; i++)
			rc = render_text_made(r, text_marked(&r->heap, list->items[i].text, true), &list->items[i]);
	if (rc)
		return rc;
	return make(r, (struct iter){.next = next_reversed, .source = value_list(list)}, iter);
}
