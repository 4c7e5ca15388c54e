/* What a load makes of a model's files, whatever their format: hyperparameters, what goes where in the image and where
 * it is in the files, tokenizer, chat template. Readers of formats fill it (src/load/model_gguf.h), the load follows
 * it. */
#ifndef WEIGHTD_MODEL_PLAN_H
#define WEIGHTD_MODEL_PLAN_H

#include "src/engine/family.h"
#include "src/engine/image.h"
#include "src/engine/speech_table.h"
#include "src/engine/tokenizer.h"
#include "src/format/tokenizer_json.h"

/* Where a tensor's rows are, and how they are stored. */
struct model_source {
	uint32_t file; /* of those of the load, from 0 */
	uint32_t kind; /* enum pack_kind, also of vectors */
	uint64_t offset, bytes;
	float add; /* to each value of a vector */
	/* Of matrices that files keep otherwise; 0 and NULL for all others. */
	uint32_t cols; /* that a row has in the file: zeros behind them make it the tensor's */
	uint32_t taps; /* a convolution's: a row is [cols / taps][taps] in the file, and becomes [taps][cols / taps] */
	float *scales; /* [rows] owned: a value is a signed code of 8 bits divided by its row's scale; kind is q8_0 */
};

/* Bytes of a row in the file. */
size_t model_source_row_bytes(const struct model_source *source, const struct image_tensor *tensor);

struct model_plan {
	const struct family *family; /* static */
	struct image_config config;  /* checked by the family */
	/* tensors[i] is packed from sources[i], made to be of its kind if it isn't, and these are in the order of the
	 * files and of their offsets. Offsets and bytes of tensors are image_plan's to fill. [n_tensors] owned */
	struct image_tensor *tensors;
	struct model_source *sources;
	uint32_t n_tensors;
	struct tokenizer_source tokenizer; /* its arrays are owned by the plan, their bytes are views of the files */
	const char *chat_template;	   /* Jinja source of template_bytes, view; 0 bytes: none */
	uint64_t template_bytes;
	struct speech_source speech; /* of a speech model; its lists are owned by the plan */
	/* Owned: what tokenizer and template view, where that isn't in the files. */
	struct tokenizer_json tokenizer_json;
	char *pool;
	char tokenizer_model[32], tokenizer_pre[32];
};

/* The lengths of what comes behind the tensors; what tokenizer_table_bytes says. */
int model_plan_tables(const struct model_plan *plan, struct image_tables *out, struct err *err);

void model_plan_fini(struct model_plan *plan);

#endif
