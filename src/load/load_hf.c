#include "src/load/load_hf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "src/load/load_safetensors.h"
#include "src/load/model_hf.h"

enum { BESIDE_MAX_BYTES = 512 << 20 }; /* what tokenizer_json_parse takes; others take less */

struct folder {
	struct load_files *files;
	struct model_hf_file *hf;    /* [files->n] owned */
	struct safetensors *weights; /* [files->n] owned */
};

static int read_headers(struct folder *folder, struct err *err)
{
	struct err what = {""};
	int rc = 0;
	for (uint32_t i = 0; i < folder->files->n && rc == 0; i++) {
		if (!folder->hf[i].is_used)
			continue;
		rc = load_safetensors_header(&folder->files->files[i], &folder->weights[i], &what);
		folder->hf[i].weights = &folder->weights[i];
		if (rc)
			load_files_blame(folder->files, i, rc, &what, err);
	}
	return rc;
}

static int read_beside(struct folder *folder, struct err *err)
{
	struct load_files *files = folder->files;
	struct err what = {""};
	int rc = 0;
	for (uint32_t i = 0; i < files->n && rc == 0; i++) {
		struct load_file *file = &files->files[i];
		folder->hf[i].name = files->names[i];
		if (i < files->n_weights)
			continue;
		rc = file->size_bytes > BESIDE_MAX_BYTES
			     ? err_set(&what, -EINVAL, "%" PRIu64 " bytes, at most %d are possible", file->size_bytes,
				       BESIDE_MAX_BYTES)
			     : load_file_prefix(file, file->size_bytes, &what);
		folder->hf[i].bytes = file->prefix;
		folder->hf[i].n_bytes = (size_t)file->size_bytes;
		if (rc)
			load_files_blame(files, i, rc, &what, err);
	}
	return rc;
}

static int plan_folder(struct folder *folder, enum model_quantize quantize, struct model_plan *plan, struct err *err)
{
	struct model_hf hf;
	int rc = read_beside(folder, err);
	if (rc == 0)
		rc = model_hf_open(folder->hf, folder->files->n, &hf, err);
	if (rc)
		return rc;
	rc = read_headers(folder, err);
	if (rc == 0)
		rc = model_hf_plan(&hf, quantize, plan, err);
	model_hf_close(&hf);
	return rc;
}

int load_hf(struct load_files *files, enum model_quantize quantize, struct model_plan *plan, struct err *err)
{
	struct folder folder = {.files = files,
				.hf = calloc(files->n, sizeof *folder.hf),
				.weights = calloc(files->n, sizeof *folder.weights)};
	int rc = folder.hf && folder.weights ? plan_folder(&folder, quantize, plan, err)
					     : err_set(err, -ENOMEM, "no memory for the headers of %u files", files->n);
	for (uint32_t i = 0; folder.weights && i < files->n; i++)
		safetensors_fini(&folder.weights[i]);
	free(folder.weights);
	free(folder.hf);
	return rc;
}
