/* What is refused here rather than ignored: any tensor that the family doesn't know. A model that is computed almost
 * right gives answers nobody can tell from right ones. Two kinds of tensors are passed over because they repeat what
 * is known: rotary frequencies, which old files have in every layer, and an output matrix where config.json says that
 * it is the embedding's. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/load/model_hf_private.h"

/* One tensor of the plan, before all are put into the files' order. */
struct entry {
	struct image_tensor tensor;
	struct model_source source;
};

int model_hf_refuse_tensor(const struct model_hf_file *file, const struct safetensors_tensor *tensor, int code,
			   const char *what, struct err *err)
{
	char quoted[SAFETENSORS_QUOTE_BYTES];
	return err_set(err, code, "%.64s: offset %" PRIu64 ": tensor '%s': %s", file->name, tensor->offset,
		       safetensors_quote(&tensor->name, quoted), what);
}

/* --- finding ---------------------------------------------------------------------------------- */

const struct safetensors_tensor *model_hf_find_tensor(const struct model_hf *folder, const char *name, uint32_t *file)
{
	for (uint32_t i = 0; i < folder->n; i++) {
		const struct safetensors_tensor *found =
			folder->files[i].is_used ? safetensors_find(folder->files[i].weights, name) : NULL;
		if (found) {
			*file = i;
			return found;
		}
	}
	return NULL;
}

int model_hf_check_index(const struct model_hf *folder, struct err *err)
{
	const struct hf_json *index = &folder->index;
	yyjson_val *map = hf_json_find(index, "weight_map"), *key, *value,
		   *total = hf_json_find(index, "metadata.total_size");
	uint64_t n_tensors = 0, n_bytes = 0;
	size_t i, n;
	yyjson_obj_foreach(map, i, n, key, value)
	{
		const struct model_hf_file *file = model_hf_find(folder->files, folder->n, yyjson_get_str(value));
		struct hf_string name = {yyjson_get_str(key), yyjson_get_len(key)};
		char quoted[HF_STRING_SHOWN_BYTES];
		if (strlen(name.bytes) != name.n_bytes || !safetensors_find(file->weights, name.bytes))
			return err_set(err, -EINVAL, "%s: weight_map: tensor '%s' is not in %.64s", index->file,
				       hf_string_quote(&name, quoted), file->name);
	}
	for (uint32_t k = 0; k < folder->n; k++) {
		const struct safetensors *weights = folder->files[k].is_used ? folder->files[k].weights : NULL;
		n_tensors += weights ? weights->n_tensors : 0;
		for (uint32_t t = 0; weights && t < weights->n_tensors; t++)
			n_bytes += weights->tensors[t].bytes;
	}
	if (n_tensors != yyjson_obj_size(map))
		return hf_json_refuse(index, "weight_map", -EINVAL, err,
				      "%zu tensors, but the files it names have %" PRIu64, yyjson_obj_size(map),
				      n_tensors);
	if (total && !(yyjson_is_num(total) && yyjson_get_num(total) == (double)n_bytes))
		return hf_json_refuse(index, "metadata.total_size", -EINVAL, err,
				      "is not %" PRIu64 ", which the tensors take", n_bytes);
	return 0;
}

/* --- placing ---------------------------------------------------------------------------------- */

uint32_t model_hf_stored_kind(enum safetensors_type type)
{
	return type == SAFETENSORS_F32 ? PACK_F32 : type == SAFETENSORS_F16 ? PACK_F16 : PACK_BF16;
}

static uint32_t kind_of(const struct family_tensor *expected, uint32_t stored, enum model_quantize quantize)
{
	bool by_token = expected->role == IMAGE_TOKEN_EMBD || expected->role == IMAGE_OUTPUT;
	if (expected->vector)
		return PACK_F32;
	switch (quantize) {
	case MODEL_AS_STORED:
		break;
	case MODEL_BF16:
		return PACK_BF16;
	case MODEL_INT8:
		return PACK_Q8_0;
	case MODEL_INT4:
		return by_token ? PACK_Q8_0 : PACK_Q4_0;
	}
	return stored;
}

static bool is_norm(uint32_t role)
{
	return role == IMAGE_OUTPUT_NORM || role == IMAGE_ATTN_NORM || role == IMAGE_FFN_NORM ||
	       role == IMAGE_ATTN_Q_NORM || role == IMAGE_ATTN_K_NORM || role == IMAGE_ATTN_POST_NORM ||
	       role == IMAGE_FFN_POST_NORM;
}

static int place(const struct model_hf *folder, const struct family_tensor *expected, enum model_quantize quantize,
		 const struct family *family, struct entry *out, struct err *err)
{
	char name[FAMILY_NAME_BYTES], what[96];
	uint32_t file = 0;
	const struct safetensors_tensor *found =
		model_hf_find_tensor(folder, family_tensor_hf_name(expected, name), &file);
	if (!found)
		return err_set(err, -EINVAL, "tensor '%s': is missing", name);
	bool fits = expected->vector
			    ? found->n_dims == 1 && found->dim[0] == expected->cols
			    : found->n_dims == 2 && found->dim[0] == expected->rows && found->dim[1] == expected->cols;
	if (!fits) {
		snprintf(what, sizeof what, "shape: %u dimensions, %" PRIu64 " x %" PRIu64 ", expected %u x %u",
			 found->n_dims, found->dim[0], found->dim[1],
			 expected->vector ? expected->cols : expected->rows, expected->vector ? 1 : expected->cols);
		return model_hf_refuse_tensor(&folder->files[file], found, -EINVAL, what, err);
	}
	uint32_t stored = model_hf_stored_kind(found->type);
	*out = (struct entry){
		.source = {.file = file,
			   .kind = stored,
			   .offset = found->offset,
			   .bytes = found->bytes,
			   .add = is_norm(expected->role) ? family->norm_offset : 0},
		.tensor = {.role = expected->role,
			   .layer = expected->layer,
			   .kind = kind_of(expected, stored, quantize),
			   .vector = expected->vector,
			   .rows = expected->rows,
			   .cols = expected->cols},
	};
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct model_source *x = &((const struct entry *)a)->source, *y = &((const struct entry *)b)->source;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static int place_all(const struct model_hf *folder, enum model_quantize quantize, struct entry *entries,
		     struct model_plan *plan, struct err *err)
{
	for (uint32_t i = 0; i < plan->n_tensors; i++) {
		struct family_tensor expected;
		family_tensor(&plan->config, i, &expected);
		int rc = place(folder, &expected, quantize, plan->family, &entries[i], err);
		if (rc)
			return rc;
	}
	qsort(entries, plan->n_tensors, sizeof *entries, by_place);
	for (uint32_t i = 0; i < plan->n_tensors; i++) {
		plan->tensors[i] = entries[i].tensor;
		plan->sources[i] = entries[i].source;
	}
	return 0;
}

/* --- leftovers -------------------------------------------------------------------------------- */

static bool repeats(const struct safetensors_string *name, bool tied)
{
	static const char frequencies[] = ".rotary_emb.inv_freq", head[] = "lm_head.weight";
	size_t n = strlen(frequencies);
	return (name->n_bytes > n && memcmp(name->bytes + name->n_bytes - n, frequencies, n) == 0) ||
	       (tied && name->n_bytes == strlen(head) && memcmp(name->bytes, head, name->n_bytes) == 0);
}

/* The entries are in the files' order, and so are the tensors of a file: both are walked once. */
static int check_leftovers(const struct model_hf *folder, const struct entry *entries, const struct model_plan *plan,
			   struct err *err)
{
	uint32_t next = 0;
	for (uint32_t file = 0; file < folder->n; file++) {
		const struct safetensors *weights = folder->files[file].is_used ? folder->files[file].weights : NULL;
		for (uint32_t i = 0; weights && i < weights->n_tensors; i++) {
			const struct safetensors_tensor *tensor = &weights->tensors[i];
			char what[64];
			if (next < plan->n_tensors && entries[next].source.file == file &&
			    entries[next].source.offset == tensor->offset && tensor->bytes) {
				next++;
				continue;
			}
			if (repeats(&tensor->name, plan->config.tied_head))
				continue;
			snprintf(what, sizeof what, "a %s model has no use for it here", plan->family->name);
			return model_hf_refuse_tensor(&folder->files[file], tensor, -ENOTSUP, what, err);
		}
	}
	return 0;
}

int model_hf_plan_tensors(const struct model_hf *folder, enum model_quantize quantize, enum model_hf_tie tie,
			  struct model_plan *plan, struct err *err)
{
	uint32_t file;
	bool has_head = model_hf_find_tensor(folder, "lm_head.weight", &file) != NULL;
	plan->config.tied_head = tie == MODEL_HF_TIE_UNSAID ? !has_head : tie == MODEL_HF_TIED;
	plan->n_tensors = family_n_tensors(&plan->config);
	plan->tensors = calloc(plan->n_tensors, sizeof *plan->tensors);
	plan->sources = calloc(plan->n_tensors, sizeof *plan->sources);
	struct entry *entries = calloc(plan->n_tensors, sizeof *entries);
	int rc = plan->tensors && plan->sources && entries
			 ? 0
			 : err_set(err, -ENOMEM, "no memory for %u tensors", plan->n_tensors);
	if (rc == 0 && folder->index.document)
		rc = model_hf_check_index(folder, err);
	if (rc == 0)
		rc = place_all(folder, quantize, entries, plan, err);
	if (rc == 0)
		rc = check_leftovers(folder, entries, plan, err);
	free(entries);
	return rc;
}
