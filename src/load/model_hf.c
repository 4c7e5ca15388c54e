#include "src/load/model_hf.h"

#include <errno.h>
#include <string.h>

#include "src/load/model_hf_private.h"

static const char index_name[] = "model.safetensors.index.json";

const struct model_hf_file *model_hf_find(const struct model_hf_file *files, uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(files[i].name, name) == 0)
			return &files[i];
	return NULL;
}

/* --- which files have the weights ------------------------------------------------------------- */

/* The file that an index says a tensor is in. What the index names is only ever compared with the names there are. */
static int use_indexed(struct model_hf *folder, yyjson_val *tensor, yyjson_val *file, struct err *err)
{
	struct hf_string name = {yyjson_get_str(file), yyjson_get_len(file)},
			 of = {yyjson_get_str(tensor), yyjson_get_len(tensor)};
	char quoted[HF_STRING_SHOWN_BYTES], tensor_quoted[HF_STRING_SHOWN_BYTES];
	hf_string_quote(&of, tensor_quoted);
	if (!yyjson_is_str(file))
		return err_set(err, -EINVAL, "%s: weight_map, tensor '%s': a file's name is expected", index_name,
			       tensor_quoted);
	for (uint32_t i = 0; i < folder->n; i++)
		if (hf_string_is(&name, folder->files[i].name) && strstr(folder->files[i].name, ".safetensors")) {
			folder->files[i].is_used = true;
			return 0;
		}
	return err_set(err, -EINVAL, "%s: weight_map, tensor '%s': '%s' is not among the folder's .safetensors files",
		       index_name, tensor_quoted, hf_string_quote(&name, quoted));
}

static int read_index(struct model_hf *folder, const struct model_hf_file *file, struct err *err)
{
	size_t i, n;
	yyjson_val *tensor, *in;
	int rc = hf_json_parse(index_name, file->bytes, file->n_bytes, &folder->index, err);
	if (rc)
		return rc;
	yyjson_val *map = hf_json_find(&folder->index, "weight_map");
	if (!yyjson_is_obj(map) || yyjson_obj_size(map) == 0)
		return hf_json_refuse(&folder->index, "weight_map", -EINVAL, err,
				      "an object with a file's name for every tensor is expected");
	yyjson_obj_foreach(map, i, n, tensor, in)
	{
		rc = use_indexed(folder, tensor, in, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* One file alone goes before an index, as in the programs that write both. */
static int find_weights(struct model_hf *folder, struct err *err)
{
	for (uint32_t i = 0; i < folder->n; i++)
		folder->files[i].is_used = false;
	for (uint32_t i = 0; i < folder->n; i++)
		if (strcmp(folder->files[i].name, "model.safetensors") == 0) {
			folder->files[i].is_used = true;
			return 0;
		}
	const struct model_hf_file *file = model_hf_find(folder->files, folder->n, index_name);
	if (!file)
		return err_set(err, -EINVAL, "the folder has neither model.safetensors nor %s", index_name);
	return read_index(folder, file, err);
}

/* --- the other files -------------------------------------------------------------------------- */

/* Where the file is not there, *out is a document without keys. */
static int read_json(const struct model_hf *folder, const char *name, struct hf_json *out, struct err *err)
{
	const struct model_hf_file *file = model_hf_find(folder->files, folder->n, name);
	*out = (struct hf_json){.file = name};
	return file ? hf_json_parse(name, file->bytes, file->n_bytes, out, err) : 0;
}

int model_hf_open(struct model_hf_file *files, uint32_t n, struct model_hf *out, struct err *err)
{
	struct model_hf folder = {.files = files, .n = n};
	int rc = model_hf_find(files, n, "config.json") ? read_json(&folder, "config.json", &folder.config, err)
							: err_set(err, -EINVAL, "the folder has no config.json");
	if (rc == 0)
		rc = read_json(&folder, "generation_config.json", &folder.generation, err);
	if (rc == 0)
		rc = read_json(&folder, "tokenizer_config.json", &folder.tokenizer, err);
	if (rc == 0)
		rc = find_weights(&folder, err);
	if (rc) {
		model_hf_close(&folder);
		return rc;
	}
	*out = folder;
	return 0;
}

void model_hf_close(struct model_hf *folder)
{
	hf_json_fini(&folder->config);
	hf_json_fini(&folder->generation);
	hf_json_fini(&folder->tokenizer);
	hf_json_fini(&folder->index);
}

static int fill(const struct model_hf *folder, enum model_quantize quantize, struct model_plan *plan, struct err *err)
{
	enum model_hf_tie tie = MODEL_HF_TIE_UNSAID;
	int rc = model_hf_config(&folder->config, &plan->family, &plan->config, &tie, err);
	if (rc == 0)
		rc = model_hf_config_check(&folder->config, &plan->config, err);
	if (rc == 0)
		rc = model_hf_plan_tokenizer(folder, plan, err);
	return rc ? rc : model_hf_plan_tensors(folder, quantize, tie, plan, err);
}

int model_hf_plan(const struct model_hf *folder, enum model_quantize quantize, struct model_plan *out, struct err *err)
{
	struct model_plan plan = {0};
	int rc = model_hf_is_speech(folder) ? model_hf_plan_speech(folder, quantize, &plan, err)
					    : fill(folder, quantize, &plan, err);
	if (rc) {
		model_plan_fini(&plan);
		return rc;
	}
	*out = plan;
	return 0;
}
