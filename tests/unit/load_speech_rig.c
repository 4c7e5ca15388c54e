#include "tests/unit/load_speech_rig.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shm/layout.h"
#include "tests/unit/load_fixture.h"

static void no_report(void *context, uint64_t done, uint64_t total)
{
	(void)context;
	ck_assert_uint_le(done, total);
}

int speech_load(const struct speech_files *files, enum model_quantize quantize, struct loaded *out, struct err *err)
{
	const struct load_progress progress = {no_report, NULL};
	struct load_input inputs[4];
	struct message_load order;
	load_fixture_order(&order);
	order.n_files = files->n;
	order.quantize = quantize;
	for (uint32_t i = 0; i < files->n; i++) {
		inputs[i] = (struct load_input){
			.fd = load_fixture_memory(files->files[i].bytes, files->files[i].n_bytes),
			.role = files->files[i].role,
		};
		snprintf(inputs[i].name, sizeof inputs[i].name, "%s", files->files[i].name);
	}
	int rc = model_load(&order, inputs, &progress, out, err);
	for (uint32_t i = 0; i < files->n; i++)
		close(inputs[i].fd);
	if (rc)
		ck_assert_uint_eq(load_fixture_objects(&order), 0);
	return rc;
}

void speech_open(const struct loaded *loaded, struct speech_opened *out)
{
	struct err err = {""};
	off_t end = lseek(loaded->fds[0], 0, SEEK_END);
	ck_assert_int_gt(end, 0);
	out->bytes = (size_t)end;
	out->mapping = mmap(NULL, out->bytes, PROT_READ, MAP_SHARED, loaded->fds[0], 0);
	ck_assert_ptr_ne(out->mapping, MAP_FAILED);
	const struct segment_header *header = out->mapping;
	out->image = (const void *)((const char *)out->mapping + SEGMENT_HEADER_BYTES);
	ck_assert_msg(model_open(out->image, header->payload_bytes, &out->model, &err) == 0, "%s", err.text);
}

void speech_close(struct speech_opened *o)
{
	model_close(&o->model);
	munmap(o->mapping, o->bytes);
}

void speech_refused(const struct speech_files *files, int code, const char *what)
{
	struct loaded loaded;
	struct err err = {""};
	int rc = speech_load(files, MODEL_AS_STORED, &loaded, &err);
	if (rc == 0)
		loaded_discard(&loaded);
	ck_assert_msg(rc == code && strstr(err.text, what), "%d '%s', expected %d '%s'", rc, err.text, code, what);
}

unsigned char *speech_find(struct speech_file *file, const char *text)
{
	void *at = memmem(file->bytes, file->n_bytes, text, strlen(text));
	ck_assert_msg(at != NULL, "%s", text);
	return at;
}

void speech_replace(struct speech_files *files, const char *name, const char *text)
{
	struct speech_file *file = speech_files_get(files, name);
	file->bytes = realloc(file->bytes, strlen(text) + 1);
	ck_assert_ptr_nonnull(file->bytes);
	file->n_bytes = file->room = strlen(text);
	memcpy(file->bytes, text, file->n_bytes);
}
