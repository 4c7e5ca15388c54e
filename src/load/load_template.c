/* A model whose own template is no good serves all but chats, because nobody here wrote it. One that the settings name
 * is there for chats, so what is wrong with it fails the load. */
#include "src/load/load_template.h"

#include <errno.h>

#include "src/engine/template.h"
#include "src/engine/utf8.h"

static int check_utf8(const char *text, size_t n_bytes, struct err *err)
{
	size_t line = 1, length = 0;
	for (size_t at = 0; at < n_bytes; at += length) {
		if (utf8_step(text + at, n_bytes - at, &length) != UTF8_CHARACTER)
			return err_set(err, -EINVAL, "line %zu: not UTF-8 at byte %zu", line, at);
		line += text[at] == '\n';
	}
	return 0;
}

static int check(const char *text, uint64_t n_bytes, struct err *err)
{
	struct template *template = NULL;
	if (n_bytes == 0)
		return err_set(err, -EINVAL, "line 1: a chat template is wanted, the file is empty");
	int rc = check_utf8(text, n_bytes, err);
	if (rc == 0)
		rc = template_compile(text, n_bytes, &template, err);
	template_free(template);
	return rc;
}

int load_template(struct load_files *files, uint32_t file, struct model_plan *plan, struct err *err)
{
	struct load_file *source = &files->files[file];
	struct err what = {""};
	int rc = 0;
	if (source->size_bytes > LOAD_TEMPLATE_MAX_BYTES)
		rc = err_set(&what, -EINVAL, "a chat template has at most %d bytes", LOAD_TEMPLATE_MAX_BYTES);
	if (rc == 0)
		rc = load_file_prefix(source, source->size_bytes, &what);
	if (rc == 0)
		rc = check((const char *)source->prefix, source->size_bytes, &what);
	if (rc)
		return load_files_blame(files, file, rc, &what, err);
	plan->chat_template = (const char *)source->prefix;
	plan->template_bytes = source->size_bytes;
	return 0;
}
