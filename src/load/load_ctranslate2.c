/* The headers of a CTranslate2 file lie between its weights, so they are looked at one by one before anything is read
 * in order: some hundred bytes for each of some hundred variables, and the scales of rows, which come behind the rows
 * they belong to. */
#include "src/load/load_ctranslate2.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/load/load_beside.h"
#include "src/load/model_ctranslate2.h"

enum { NEEDED_MAX_BYTES = 64 << 20 }; /* of all that is kept: those of the largest known model have 2 MiB */

bool load_ctranslate2_is(const struct load_files *files)
{
	return files->is_folder && strcmp(files->names[0], "model.bin") == 0;
}

static int read_headers(struct load_file *file, struct ctranslate2 *out, struct err *err)
{
	unsigned char look[CTRANSLATE2_LOOK_BYTES];
	int rc = 0;
	while (rc == 0 && out->part != CTRANSLATE2_END) {
		uint64_t rest = file->size_bytes - out->offset;
		size_t n = rest < sizeof look ? (size_t)rest : sizeof look;
		rc = load_file_look(file, out->offset, n, look, err);
		if (rc == 0)
			rc = ctranslate2_step(out, file->size_bytes, look, n, err);
	}
	return rc;
}

static int read_needed(struct load_file *file, struct ctranslate2 *weights, struct err *err)
{
	uint64_t total = 0;
	int rc = 0;
	for (uint32_t i = 0; i < weights->n_variables && rc == 0; i++) {
		struct ctranslate2_variable *v = &weights->variables[i];
		if (!model_ctranslate2_needs(v))
			continue;
		total += v->bytes;
		if (total > NEEDED_MAX_BYTES)
			return err_set(err, -EINVAL,
				       "offset %" PRIu64 ": variable '%s': scales and biases above %d bytes", v->offset,
				       v->name, NEEDED_MAX_BYTES);
		v->data = malloc(v->bytes + 1);
		rc = v->data ? load_file_look(file, v->offset, v->bytes, v->data, err)
			     : err_set(err, -ENOMEM, "no memory for %" PRIu64 " bytes of scales", v->bytes);
	}
	return rc;
}

static int read_weights(struct load_files *files, struct ctranslate2 *weights, struct err *err)
{
	struct err what = {""};
	int rc = read_headers(&files->files[0], weights, &what);
	if (rc == 0)
		rc = read_needed(&files->files[0], weights, &what);
	return rc ? load_files_blame(files, 0, rc, &what, err) : 0;
}

static int read_beside(struct load_files *files, struct model_ctranslate2 *model, struct err *err)
{
	const void *bytes;
	size_t n_bytes;
	int rc = load_beside(files, "config.json", &bytes, &n_bytes, err);
	if (rc == 0)
		rc = hf_json_parse("config.json", bytes, n_bytes, &model->config, err);
	return rc ? rc : load_beside(files, "tokenizer.json", &model->tokenizer, &model->tokenizer_bytes, err);
}

int load_ctranslate2(struct load_files *files, enum model_quantize quantize, struct model_plan *plan, struct err *err)
{
	struct ctranslate2 weights = {.n_variables = 0};
	struct model_ctranslate2 model = {.weights = &weights};
	int rc = read_weights(files, &weights, err);
	if (rc == 0)
		rc = read_beside(files, &model, err);
	if (rc == 0)
		rc = model_ctranslate2_plan(&model, quantize, plan, err);
	hf_json_fini(&model.config);
	ctranslate2_fini(&weights);
	return rc;
}
