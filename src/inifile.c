/* inih reads leniently: it cuts lines, section names and keys at fixed sizes without a word, goes on after errors,
 * takes indented lines as continued values and lets the last of two equal keys win. A configuration that is not what
 * its author wrote is worse than none, so every line passes read_line() first, which refuses all of that, and only then
 * goes to inih. */
#include "src/inifile.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdbool.h>
#include <string.h>

struct inifile {
	FILE *file;
	inifile_handler *handler;
	void *user;
	unsigned line;
	int rc; /* of the first error */
	struct err why;
	char section[INIFILE_NAME_MAX + 2];
	char sections[INIFILE_SECTIONS_MAX][INIFILE_NAME_MAX + 2];
	unsigned n_sections;
	char keys[INIFILE_KEYS_MAX][INIFILE_NAME_MAX + 2]; /* of the current section */
	unsigned n_keys;
};

/* "[name]" and nothing but a comment behind it. */
static int section_line(struct inifile *ini, char *line)
{
	char *end = strchr(line, ']');
	if (!end)
		return err_set(&ini->why, -EINVAL, "a section's line must end with ']'");
	const char *rest = end + 1 + strspn(end + 1, " \t\r\n");
	if (*rest && *rest != ';' && *rest != '#')
		return err_set(&ini->why, -EINVAL, "unexpected text after ']': '%.40s'", rest);
	size_t n = (size_t)(end - line - 1);
	if (n == 0 || n > INIFILE_NAME_MAX)
		return err_set(&ini->why, -EINVAL, "a section's name must have 1 to %d characters, this one has %zu",
			       INIFILE_NAME_MAX, n);
	memcpy(ini->section, line + 1, n);
	ini->section[n] = '\0';
	for (unsigned i = 0; i < ini->n_sections; i++)
		if (!strcmp(ini->sections[i], ini->section))
			return err_set(&ini->why, -EINVAL, "section [%s] comes twice", ini->section);
	if (ini->n_sections == INIFILE_SECTIONS_MAX)
		return err_set(&ini->why, -EINVAL, "more than %d sections", INIFILE_SECTIONS_MAX);
	strcpy(ini->sections[ini->n_sections++], ini->section);
	ini->n_keys = 0;
	const struct inifile_entry entry = {.section = ini->section, .line = ini->line};
	return ini->handler(ini->user, &entry, &ini->why);
}

static int key_line(struct inifile *ini, char *line)
{
	size_t n = strcspn(line, "=:");
	if (line[n] != '=')
		return err_set(&ini->why, -EINVAL, "expected 'key = value', a [section] or a comment: '%.60s'", line);
	while (n > 0 && isspace((unsigned char)line[n - 1]))
		n--;
	if (n == 0 || n > INIFILE_NAME_MAX)
		return err_set(&ini->why, -EINVAL, "a key must have 1 to %d characters, this one has %zu",
			       INIFILE_NAME_MAX, n);
	for (unsigned i = 0; i < ini->n_keys; i++)
		if (strlen(ini->keys[i]) == n && !strncmp(ini->keys[i], line, n))
			return err_set(&ini->why, -EINVAL, "%s: comes twice in this section", ini->keys[i]);
	if (ini->n_keys == INIFILE_KEYS_MAX)
		return err_set(&ini->why, -EINVAL, "more than %d keys in a section", INIFILE_KEYS_MAX);
	memcpy(ini->keys[ini->n_keys], line, n);
	ini->keys[ini->n_keys++][n] = '\0';
	return 0;
}

/* Reads one line into `text` [size] without its leading blanks. 1: a line, 0: the end of the file, or -errno. */
static int read_line(struct inifile *ini, char *text, size_t size)
{
	size_t n = 0, column = 0;
	int c;
	while ((c = getc(ini->file)) != EOF && c != '\n') {
		column++;
		if ((c < ' ' && c != '\t' && c != '\r') || c == 0x7f)
			return err_set(&ini->why, -EINVAL, "control character 0x%02x in column %zu", (unsigned)c,
				       column);
		if (n == 0 && isspace(c))
			continue;
		if (n + 2 >= size || column > INIFILE_LINE_MAX)
			return err_set(&ini->why, -EINVAL, "the line is longer than %zu characters",
				       size - 2 < INIFILE_LINE_MAX ? size - 2 : (size_t)INIFILE_LINE_MAX);
		text[n++] = (char)c;
	}
	if (ferror(ini->file))
		return err_set(&ini->why, -EIO, "cannot be read");
	if (c == EOF && column == 0)
		return 0;
	while (n > 0 && isspace((unsigned char)text[n - 1]))
		n--;
	text[n] = '\0';
	return 1;
}

/* inih's reader: the next line, checked, or NULL at the end and after an error. */
static char *next_line(char *text, int size, void *stream)
{
	struct inifile *ini = stream;
	if (ini->rc < 0 || size < 3)
		return NULL;
	ini->line++;
	int rc = read_line(ini, text, (size_t)size);
	if (rc > 0 && text[0] == '[')
		ini->rc = section_line(ini, text);
	else if (rc > 0 && text[0] && text[0] != '#' && text[0] != ';')
		ini->rc = key_line(ini, text);
	else if (rc < 0)
		ini->rc = rc;
	return rc > 0 && ini->rc == 0 ? text : NULL;
}

static int key_value(void *user, const char *section, const char *key, const char *value)
{
	struct inifile *ini = user;
	if (ini->rc < 0)
		return 0;
	const struct inifile_entry entry = {
		.section = section, .key = key, .value = value ? value : "", .line = ini->line};
	ini->rc = ini->handler(ini->user, &entry, &ini->why);
	return ini->rc == 0;
}

int inifile_read(FILE *file, const char *name, inifile_handler *handler, void *user, struct err *err)
{
	/* Debian's inih takes its limits from these at run time; without them a line would end at 200 bytes. */
	ini_use_stack = false;
	ini_max_line = ini_initial_alloc = INIFILE_LINE_MAX + 3;
	ini_allow_multiline = false;
	ini_stop_on_first_error = true;

	struct inifile ini = {.file = file, .handler = handler, .user = user};
	int rc = ini_parse_stream(next_line, &ini, key_value, &ini);
	size_t n = strlen(name);
	if (n > 80) /* the end of a long path says more, and leaves room for the reason */
		name += n - 80;
	if (ini.rc < 0)
		return err_set(err, ini.rc, "%s:%u: %.160s", name, ini.line, ini.why.text);
	if (rc == -2)
		return err_set(err, -ENOMEM, "%s: out of memory", name);
	if (rc != 0)
		return err_set(err, -EINVAL, "%s:%d: not an INI line", name, rc);
	return 0;
}
