#include "src/load/load_whisper_ggml.h"

#include <errno.h>
#include <string.h>

#include "src/load/model_whisper_ggml.h"

int load_whisper_ggml_is(struct load_files *files, bool *out, struct err *err)
{
	static const char magic[4] = {'l', 'm', 'g', 'g'};
	struct err what = {""};
	struct load_file *file = &files->files[0];
	int rc = load_file_prefix(file, sizeof magic, &what);
	if (rc)
		return load_files_blame(files, 0, rc, &what, err);
	*out = file->prefix_bytes >= sizeof magic && memcmp(file->prefix, magic, sizeof magic) == 0;
	return 0;
}

static int read_headers(struct load_file *file, struct whisper_ggml *out, struct err *err)
{
	unsigned char look[WHISPER_GGML_LOOK_BYTES];
	int rc = 0;
	while (rc == 0 && out->part != WHISPER_GGML_END) {
		uint64_t rest = file->size_bytes - out->offset;
		size_t n = rest < sizeof look ? (size_t)rest : sizeof look;
		/* A tensor's header is short. */
		n = out->part == WHISPER_GGML_TENSOR && n > 256 ? 256 : n;
		rc = load_file_look(file, out->offset, n, look, err);
		if (rc == 0)
			rc = whisper_ggml_step(out, file->size_bytes, look, n, err);
	}
	return rc;
}

int load_whisper_ggml(struct load_files *files, enum model_quantize quantize, struct model_plan *plan, struct err *err)
{
	struct whisper_ggml ggml = {.n_words = 0};
	struct err what = {""};
	int rc = files->n_weights > 1 ? err_set(&what, -EINVAL, "whisper.cpp's models are one file, and there are %u",
						files->n_weights)
				      : read_headers(&files->files[0], &ggml, &what);
	if (rc == 0)
		rc = model_whisper_ggml_plan(&ggml, quantize, plan, &what);
	whisper_ggml_fini(&ggml);
	return rc ? load_files_blame(files, 0, rc, &what, err) : 0;
}
