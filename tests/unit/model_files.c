/* Which files a model's path means, by their names alone; and what opening and describing them finds. */
#include "src/parent/model_files.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/message.h"
#include "tests/unit/suite.h"

static struct config_model model_at(const char *path)
{
	struct config_model model;
	memset(&model, 0, sizeof model);
	snprintf(model.path, sizeof model.path, "%s", path);
	return model;
}

START_TEST(one_file_is_one_file)
{
	static const char *const paths[] = {
		"/models/tiny.gguf",
		"tiny.gguf",
		"/models/-00001-of-00003.ggu",
		"/models/a-0001-of-0003.gguf",
		"/models/a-00001-of-00003.gguf.gguf",
		"/models/a-00002_of_00003.gguf",
		"/models/a-0000a-of-00003.gguf",
		"/models/a-00001-of-00001.gguf",
		"",
	};
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		struct config_model model = model_at(paths[i]);
		struct model_files files;
		struct err err = {""};
		ck_assert_msg(model_files_find(&model, &files, &err) == 0, "%s: %s", paths[i], err.text);
		ck_assert_uint_eq(files.n, 1);
		ck_assert_str_eq(files.files[0].path, paths[i]);
		ck_assert_uint_eq(files.files[0].role, FILE_WEIGHTS);
		ck_assert_ptr_null(strchr(files.files[0].name, '/'));
		model_files_free(&files);
	}
}
END_TEST

START_TEST(parts_lie_beside_the_first)
{
	struct config_model model = model_at("/models/of 3/big.Q4_K-00001-of-00255.gguf");
	struct model_files files;
	struct err err = {""};
	ck_assert_msg(model_files_find(&model, &files, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(files.n, 255);
	for (uint32_t i = 0; i < files.n; i++) {
		char expected[100];
		snprintf(expected, sizeof expected, "/models/of 3/big.Q4_K-%05u-of-00255.gguf", i + 1);
		ck_assert_str_eq(files.files[i].path, expected);
		ck_assert_str_eq(files.files[i].name, expected + 13);
		ck_assert_uint_eq(files.files[i].role, FILE_WEIGHTS);
	}
	model_files_free(&files);
	model_files_free(&files); /* nothing is left to free */
}
END_TEST

START_TEST(refuses_other_parts)
{
	static const struct {
		const char *path, *part;
	} cases[] = {
		{"/m/big-00002-of-00003.gguf", "is part 2 of 3; it has to name the first, ...-00001-of-00003.gguf"},
		{"/m/big-00000-of-00003.gguf", "is part 0 of 3"},
		{"/m/big-00004-of-00003.gguf", "is part 4 of 3"},
		{"/m/big-00001-of-00000.gguf", "is part 1 of 0"},
		{"/m/big-00000-of-00000.gguf", "is part 0 of 0"},
		{"/m/big-00001-of-00256.gguf", "is one of 256 parts, at most 255 are possible"},
		{"/m/big-00001-of-99999.gguf", "is one of 99999 parts"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct config_model model = model_at(cases[i].path);
		struct model_files files;
		struct err err = {""};
		ck_assert_int_eq(model_files_find(&model, &files, &err), -EINVAL);
		ck_assert_msg(strstr(err.text, cases[i].part) != NULL, "'%s' isn't in: %s", cases[i].part, err.text);
	}
	char path[300];
	memset(path, 'n', sizeof path);
	path[0] = '/';
	path[257] = '\0';
	struct config_model model = model_at(path);
	struct model_files files;
	ck_assert_int_eq(model_files_find(&model, &files, NULL), -ENAMETOOLONG);
}
END_TEST

START_TEST(a_chat_template_comes_last)
{
	static const char *const paths[] = {"/m/tiny.gguf", "/m/big-00001-of-00255.gguf"};
	for (size_t i = 0; i < 2; i++) {
		struct config_model model = model_at(paths[i]);
		struct model_files files;
		struct err err = {""};
		strcpy(model.chat_template, "/etc/chat.jinja");
		ck_assert_msg(model_files_find(&model, &files, &err) == 0, "%s", err.text);
		ck_assert_uint_eq(files.n, i ? 256 : 2);
		ck_assert_uint_eq(files.files[files.n - 2].role, FILE_WEIGHTS);
		ck_assert_uint_eq(files.files[files.n - 1].role, FILE_TEMPLATE);
		ck_assert_str_eq(files.files[files.n - 1].path, "/etc/chat.jinja");
		ck_assert_str_eq(files.files[files.n - 1].name, "chat.jinja");
		model_files_free(&files);
	}
}
END_TEST

static char directory[] = "./weightd-files-XXXXXX";

static void make(const char *name, const char *content)
{
	char path[100];
	snprintf(path, sizeof path, "%s/%s", directory, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, content, strlen(content)), (ssize_t)strlen(content));
	close(fd);
}

static void describe(struct segment_source *out)
{
	char path[100];
	struct model_files files;
	struct err err = {""};
	snprintf(path, sizeof path, "%s/m-00001-of-00003.gguf", directory);
	struct config_model model = model_at(path);
	ck_assert_int_eq(model_files_find(&model, &files, &err), 0);
	ck_assert_msg(model_files_describe(&files, out, &err) == 0, "%s", err.text);
	model_files_free(&files);
}

START_TEST(every_change_of_a_part_shows)
{
	struct segment_source before, now;
	char path[100], other[100];
	ck_assert_ptr_nonnull(mkdtemp(directory));
	make("m-00001-of-00003.gguf", "one");
	make("m-00002-of-00003.gguf", "two");
	make("m-00003-of-00003.gguf", "three");
	describe(&before);
	ck_assert_uint_eq(before.n_files, 3);
	ck_assert_uint_eq(before.size_bytes, 11);
	describe(&now);
	ck_assert_mem_eq(&before, &now, sizeof now);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "%s/m-%05u-of-00003.gguf", directory, i + 1);
		snprintf(other, sizeof other, "%s/other", directory);
		for (unsigned change = 0; change < 3; change++) {
			describe(&before);
			if (change == 0) { /* another file with the same bytes */
				make("other", i == 0 ? "one" : i == 1 ? "two" : "three");
				ck_assert_int_eq(rename(other, path), 0);
			} else if (change == 1) {
				struct timespec times[2] = {{0, 0}, {1000, 0}};
				ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
			} else {
				ck_assert_int_eq(truncate(path, 1), 0);
			}
			describe(&now);
			for (unsigned k = 0; k < 3; k++)
				ck_assert((before.files[k] != now.files[k]) == (k == i));
		}
	}
	/* One that is gone, and one that is no file. */
	struct model_files files;
	struct err err = {""};
	int fd = -1;
	snprintf(path, sizeof path, "%s/m-00001-of-00003.gguf", directory);
	struct config_model model = model_at(path);
	ck_assert_int_eq(model_files_find(&model, &files, &err), 0);
	ck_assert_int_eq(unlink(files.files[1].path), 0);
	ck_assert_int_eq(model_files_describe(&files, &now, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "m-00002-of-00003.gguf: No such file"));
	ck_assert_int_eq(model_file_open(&files.files[1], &fd, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "cannot open "));
	ck_assert_ptr_nonnull(strstr(err.text, "m-00002-of-00003.gguf: No such file"));
	ck_assert_int_eq(mkfifo(files.files[1].path, 0600), 0);
	ck_assert_int_eq(model_files_describe(&files, &now, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "m-00002-of-00003.gguf: not a regular file"));
	/* Nobody writes to it: opening must not wait for that. */
	ck_assert_int_eq(model_file_open(&files.files[1], &fd, &err), 0);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	for (unsigned i = 0; i < 3; i++)
		unlink(files.files[i].path);
	model_files_free(&files);
	rmdir(directory);
}
END_TEST

static void put(const char *folder, const char *name)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
}

/* Beside .safetensors files model.bin is nothing; without them it is what has the weights. */
START_TEST(a_folder_of_ctranslate2_has_one_file_of_weights)
{
	char folder[] = "/tmp/weightd-folder-XXXXXX", path[256];
	static const char *const names[] = {"model.bin", "tokenizer.json", "config.json", "vocabulary.json",
					    "model.safetensors"};
	static const char *const expected[] = {"model.bin", "config.json", "tokenizer.json"};
	struct model_files files;
	struct err err = {""};
	ck_assert_ptr_nonnull(mkdtemp(folder));
	struct config_model model = model_at(folder);
	put(folder, names[0]);
	ck_assert_int_eq(model_files_find(&model, &files, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "has no config.json"));
	for (size_t i = 1; i < 4; i++)
		put(folder, names[i]);
	ck_assert_msg(model_files_find(&model, &files, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(files.n, 3);
	for (uint32_t i = 0; i < files.n; i++) {
		ck_assert_str_eq(files.files[i].name, expected[i]);
		ck_assert_uint_eq(files.files[i].role, i < 1 ? FILE_WEIGHTS : FILE_BESIDE);
	}
	model_files_free(&files);
	put(folder, names[4]);
	ck_assert_msg(model_files_find(&model, &files, &err) == 0, "%s", err.text);
	ck_assert_str_eq(files.files[0].name, names[4]);
	for (uint32_t i = 0; i < files.n; i++)
		ck_assert_str_ne(files.files[i].name, names[0]);
	model_files_free(&files);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
}
END_TEST

/* Of a folder the weights by name, then what is beside them; nothing else, whatever it is called. */
START_TEST(a_folder_has_weights_and_what_is_beside_them)
{
	char folder[] = "/tmp/weightd-folder-XXXXXX", path[256];
	static const char *const names[] = {"b.safetensors", "a.safetensors", "tokenizer.json",	  "config.json",
					    "README.md",     ".safetensors",  "c.safetensors.bak"};
	static const char *const expected[] = {"a.safetensors", "b.safetensors", "config.json", "tokenizer.json"};
	struct model_files files;
	struct err err = {""};
	ck_assert_ptr_nonnull(mkdtemp(folder));
	struct config_model model = model_at(folder);
	model.quantize = 2;
	ck_assert_int_eq(model_files_find(&model, &files, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "has no .safetensors file"));
	put(folder, names[0]);
	ck_assert_int_eq(model_files_find(&model, &files, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "has no config.json"));
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		put(folder, names[i]);
	ck_assert_msg(model_files_find(&model, &files, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(files.n, 4);
	ck_assert_uint_eq(files.quantize, 2);
	for (uint32_t i = 0; i < files.n; i++) {
		ck_assert_str_eq(files.files[i].name, expected[i]);
		ck_assert_uint_eq(files.files[i].role, i < 2 ? FILE_WEIGHTS : FILE_BESIDE);
	}
	model_files_free(&files);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("model_files");
	TCase *tcase = tcase_create("files");
	tcase_add_test(tcase, one_file_is_one_file);
	tcase_add_test(tcase, a_folder_has_weights_and_what_is_beside_them);
	tcase_add_test(tcase, a_folder_of_ctranslate2_has_one_file_of_weights);
	tcase_add_test(tcase, parts_lie_beside_the_first);
	tcase_add_test(tcase, refuses_other_parts);
	tcase_add_test(tcase, a_chat_template_comes_last);
	tcase_add_test(tcase, every_change_of_a_part_shows);
	suite_add_tcase(suite, tcase);
	return suite_run(suite);
}
