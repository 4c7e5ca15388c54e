/* One state for each kind of byte:
 *
 *   PREAMBLE --delimiter--> BEHIND_BOUNDARY --CR LF--> HEAD --empty line--> DATA --delimiter--> BEHIND_BOUNDARY
 *                                          `--"--"---> EPILOGUE
 *
 * The delimiter is CR LF "--" boundary, and no boundary has a CR. So when a partial match breaks off, what was matched
 * is data, no shorter match can begin in it, and those bytes need not have been kept: they are the delimiter's own. */
#include "io/multipart.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* --- Content-Type ----------------------------------------------------------------------------- */

static const char *skip_blanks(const char *at)
{
	return at + strspn(at, " \t");
}

/* A parameter's value, a token or a quoted string, to `out` [size]. Returns what follows it, or NULL. */
static const char *read_value(const char *at, char *out, size_t size)
{
	size_t n = 0;
	bool quoted = *at == '"';
	at += quoted;
	while (*at && (quoted ? *at != '"' : !strchr(";, \t", *at))) {
		if (quoted && at[0] == '\\' && (at[1] == '"' || at[1] == '\\'))
			at++;
		if (n + 1 >= size)
			return NULL;
		out[n++] = *at++;
	}
	if (quoted && *at != '"')
		return NULL;
	out[n] = '\0';
	return at + quoted;
}

/* The next "; name=value". 1, 0 when there is none, or -EINVAL. */
static int next_parameter(const char **at, char *name, size_t name_size, char *value, size_t value_size)
{
	const char *from = skip_blanks(*at);
	if (!*from)
		return 0;
	if (*from != ';')
		return -EINVAL;
	from = skip_blanks(from + 1);
	if (!*from) /* a semicolon at the end is harmless */
		return 0;
	size_t n = strcspn(from, "= \t;\"");
	if (from[n] != '=' || n == 0 || n >= name_size)
		return -EINVAL;
	memcpy(name, from, n);
	name[n] = '\0';
	*at = read_value(from + n + 1, value, value_size);
	return *at ? 1 : -EINVAL;
}

static bool boundary_ok(const char *boundary)
{
	size_t n = strlen(boundary);
	for (size_t i = 0; i < n; i++) {
		char c = boundary[i];
		bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		if (!alnum && !strchr("'()+_,-./:=? ", c))
			return false;
	}
	return n >= 1 && n <= MULTIPART_BOUNDARY_MAX && boundary[n - 1] != ' ';
}

int multipart_init(struct multipart *m, const char *content_type, struct err *err)
{
	static const char wanted[] = "multipart/form-data";
	char name[64], value[256], boundary[MULTIPART_BOUNDARY_MAX + 1] = "";
	const char *at = skip_blanks(content_type);
	size_t n = strcspn(at, "; \t");
	if (n != sizeof wanted - 1 || strncasecmp(at, wanted, n) != 0)
		return err_set(err, -EINVAL, "the Content-Type must be %s, not '%.64s'", wanted, content_type);
	at += n;
	int rc;
	while ((rc = next_parameter(&at, name, sizeof name, value, sizeof value)) == 1) {
		if (strcasecmp(name, "boundary") != 0)
			continue;
		if (boundary[0] || !boundary_ok(value))
			return err_set(err, -EINVAL, "the Content-Type has a boundary that is none (RFC 2046)");
		snprintf(boundary, sizeof boundary, "%.*s", MULTIPART_BOUNDARY_MAX, value);
	}
	if (rc < 0 || !boundary[0])
		return err_set(err, -EINVAL, "the Content-Type %s",
			       rc < 0 ? "has a parameter that can't be read" : "names no boundary");
	*m = (struct multipart){.state = MULTIPART_IN_PREAMBLE, .n_matched = 2}; /* a body may begin with it */
	m->n_delimiter = 4 + (uint32_t)strlen(boundary);
	memcpy(m->delimiter, "\r\n--", 4);
	memcpy(m->delimiter + 4, boundary, m->n_delimiter - 4);
	return 0;
}

/* --- faults ----------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static enum multipart_event fault(struct multipart *m, const char *format, ...)
{
	char what[160];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	if (m->name[0])
		err_set(&m->fault, 0, "part %u ('%.60s') at byte %llu of the body: %s", m->n_parts, m->name,
			(unsigned long long)m->offset, what);
	else
		err_set(&m->fault, 0, "byte %llu of the body, part %u: %s", (unsigned long long)m->offset, m->n_parts,
			what);
	m->state = MULTIPART_FAULTY;
	return MULTIPART_BAD;
}

/* --- a part's head ---------------------------------------------------------------------------- */

/* `field` is one line, ended by NUL. 0, or a fault. */
static enum multipart_event read_disposition(struct multipart *m, const char *value)
{
	char name[64], text[MULTIPART_NAME_MAX + 1];
	bool named = false;
	size_t n = strcspn(value, "; \t");
	if (n != 9 || strncasecmp(value, "form-data", 9) != 0)
		return fault(m, "its Content-Disposition is not form-data");
	value += n;
	int rc;
	while ((rc = next_parameter(&value, name, sizeof name, text, sizeof text)) == 1) {
		if (strcasecmp(name, "name") == 0) {
			if (named)
				return fault(m, "it has two names");
			named = true;
			memcpy(m->name, text, sizeof text);
		} else if (strcasecmp(name, "filename") == 0 || strcasecmp(name, "filename*") == 0) {
			m->is_file = true;
			if (name[8] == '\0')
				memcpy(m->filename, text, sizeof text);
		}
	}
	if (rc < 0)
		return fault(m, "its Content-Disposition can't be read, or is longer than %d bytes",
			     MULTIPART_NAME_MAX);
	return named && m->name[0] ? MULTIPART_MORE : fault(m, "its Content-Disposition has no name");
}

static enum multipart_event read_field(struct multipart *m, char *line, bool *disposed)
{
	char *colon = strchr(line, ':');
	if (!colon || colon == line)
		return fault(m, "a header line without a name");
	*colon = '\0';
	const char *value = skip_blanks(colon + 1);
	if (strcasecmp(line, "content-disposition") == 0) {
		if (*disposed)
			return fault(m, "it has two Content-Dispositions");
		*disposed = true;
		return read_disposition(m, value);
	}
	if (strcasecmp(line, "content-type") == 0) {
		if (strncasecmp(value, "multipart/", 10) == 0)
			return fault(m, "a multipart within a multipart");
		snprintf(m->content_type, sizeof m->content_type, "%s", value);
	} else if (strcasecmp(line, "content-transfer-encoding") == 0 && strcasecmp(value, "binary") != 0 &&
		   strcasecmp(value, "8bit") != 0 && strcasecmp(value, "7bit") != 0) {
		return fault(m, "its Content-Transfer-Encoding '%.32s' is not served", value);
	}
	return MULTIPART_MORE;
}

/* The head is whole: lines, each ended by CR LF, and an empty one. */
static enum multipart_event read_head(struct multipart *m)
{
	bool disposed = false;
	for (char *line = m->head; *line != '\r';) {
		char *end = strstr(line, "\r\n");
		*end = '\0';
		if (strpbrk(line, "\r\n"))
			return fault(m, "a bare CR or LF in a header line");
		enum multipart_event event = read_field(m, line, &disposed);
		if (event != MULTIPART_MORE)
			return event;
		line = end + 2;
	}
	if (!disposed)
		return fault(m, "it has no Content-Disposition");
	m->state = MULTIPART_IN_DATA;
	m->n_matched = 0;
	return MULTIPART_PART;
}

static char take_byte(struct multipart *m)
{
	m->n_bytes--;
	m->offset++;
	return *m->bytes++;
}

static enum multipart_event take_head(struct multipart *m)
{
	while (m->n_bytes) {
		char c = take_byte(m);
		if (c == '\0')
			return fault(m, "a zero byte in its header");
		if (m->n_head + 1 >= sizeof m->head)
			return fault(m, "its header has more than %d bytes", MULTIPART_HEAD_MAX - 2);
		m->head[m->n_head++] = c;
		m->head[m->n_head] = '\0';
		bool ends = m->n_head == 2 ? memcmp(m->head, "\r\n", 2) == 0
					   : m->n_head > 3 && memcmp(m->head + m->n_head - 4, "\r\n\r\n", 4) == 0;
		if (ends)
			return read_head(m);
	}
	return MULTIPART_MORE;
}

/* --- boundaries and data ---------------------------------------------------------------------- */

static enum multipart_event begin_part(struct multipart *m)
{
	m->name[0] = m->filename[0] = m->content_type[0] = '\0';
	m->is_file = false;
	m->n_head = 0;
	m->part_offset = m->offset;
	m->state = MULTIPART_IN_HEAD;
	if (++m->n_parts > MULTIPART_PARTS_MAX)
		return fault(m, "more than %d parts", MULTIPART_PARTS_MAX);
	return MULTIPART_MORE;
}

/* Blanks, then CR LF before a part or "--" behind the last. That a line begins with the boundary makes it a delimiter,
 * whatever follows (RFC 2046, 5.1.1); so what else follows is a fault and no data. */
static enum multipart_event take_line(struct multipart *m)
{
	while (m->n_bytes) {
		char c = take_byte(m);
		if (m->n_line == 0 && (c == ' ' || c == '\t'))
			continue;
		m->line[m->n_line++] = c;
		if (m->n_line == 1 && c != '\r' && c != '-')
			return fault(m, "the line of a boundary goes on behind it");
		if (m->n_line < 2)
			continue;
		m->n_line = 0;
		if (memcmp(m->line, "\r\n", 2) == 0)
			return begin_part(m);
		if (memcmp(m->line, "--", 2) != 0)
			return fault(m, "the line of a boundary goes on behind it");
		m->state = MULTIPART_IN_EPILOGUE;
		return MULTIPART_END;
	}
	return MULTIPART_MORE;
}

static void use(struct multipart *m, size_t n)
{
	m->bytes += n;
	m->n_bytes -= n;
	m->offset += n;
}

static enum multipart_event data(struct multipart *m, const char *bytes, size_t n)
{
	m->data = bytes;
	m->n_data = n;
	return MULTIPART_DATA;
}

/* Data up to the delimiter; the preamble is read as if it were data. */
static enum multipart_event take_data(struct multipart *m)
{
	if (m->n_matched == 0) {
		const char *from = m->bytes, *cr = memchr(from, '\r', m->n_bytes);
		size_t n = cr ? (size_t)(cr - from) : m->n_bytes;
		use(m, n);
		if (n)
			return data(m, from, n);
	}
	while (m->n_bytes && *m->bytes == m->delimiter[m->n_matched]) {
		use(m, 1);
		if (++m->n_matched < m->n_delimiter)
			continue;
		m->n_matched = 0;
		m->n_line = 0;
		m->state = MULTIPART_BEHIND_BOUNDARY;
		return MULTIPART_PART_END;
	}
	if (!m->n_bytes)
		return MULTIPART_MORE;
	size_t n = m->n_matched;
	m->n_matched = 0;
	return data(m, m->delimiter, n);
}

static enum multipart_event take_preamble(struct multipart *m)
{
	enum multipart_event event = take_data(m);
	if (event == MULTIPART_DATA && m->offset > MULTIPART_PREAMBLE_MAX)
		return fault(m, "no part begins (the Content-Type's boundary is '%.*s')", (int)m->n_delimiter - 4,
			     m->delimiter + 4);
	return event == MULTIPART_DATA || event == MULTIPART_PART_END ? MULTIPART_MORE : event;
}

void multipart_give(struct multipart *m, const char *bytes, size_t n_bytes)
{
	m->bytes = bytes;
	m->n_bytes = n_bytes;
}

enum multipart_event multipart_next(struct multipart *m, struct err *err)
{
	enum multipart_event event = m->state == MULTIPART_FAULTY ? MULTIPART_BAD : MULTIPART_MORE;
	while (m->n_bytes && event == MULTIPART_MORE) {
		switch (m->state) {
		case MULTIPART_IN_PREAMBLE:
			event = take_preamble(m);
			break;
		case MULTIPART_BEHIND_BOUNDARY:
			event = take_line(m);
			break;
		case MULTIPART_IN_HEAD:
			event = take_head(m);
			break;
		case MULTIPART_IN_DATA:
			event = take_data(m);
			break;
		case MULTIPART_IN_EPILOGUE:
			use(m, m->n_bytes);
			break;
		case MULTIPART_FAULTY:
			break;
		}
	}
	if (event == MULTIPART_BAD)
		*err = m->fault;
	return event;
}

int multipart_finish(const struct multipart *m, struct err *err)
{
	if (m->state == MULTIPART_IN_EPILOGUE)
		return 0;
	if (m->state == MULTIPART_FAULTY)
		return err_set(err, -EINVAL, "%s", m->fault.text);
	return err_set(err, -EINVAL, "the body ends at byte %llu within part %u%s%s%s, before its last boundary",
		       (unsigned long long)m->offset, m->n_parts, m->name[0] ? " ('" : "", m->name,
		       m->name[0] ? "')" : "");
}
