#include "src/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char *log_role = "weightd";
static enum log_level log_limit = LOG_LEVEL_INFO;
static int log_to_journal;

void log_init(const char *role, enum log_level level)
{
	log_role = role;
	log_limit = level;
	log_to_journal = getenv("JOURNAL_STREAM") != NULL;
}

void log_line(enum log_level level, const char *format, ...)
{
	static const char *const name[] = {"error", "warning", "info", "debug"};
	static const char priority[] = {'3', '4', '6', '7'}; /* syslog's numbers, sd-daemon(3) */
	if (level > log_limit)
		return;
	char line[1024];
	int n;
	if (log_to_journal) {
		n = snprintf(line, sizeof line, "<%c>%s: ", priority[level], log_role);
	} else {
		struct timespec now;
		struct tm t;
		clock_gettime(CLOCK_REALTIME, &now);
		gmtime_r(&now.tv_sec, &t);
		n = snprintf(line, sizeof line, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ %-7s %s: ", t.tm_year + 1900,
			     t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, now.tv_nsec / 1000000, name[level],
			     log_role);
	}
	va_list args;
	va_start(args, format);
	int m = vsnprintf(line + n, sizeof line - (size_t)n, format, args);
	va_end(args);
	if (m < 0)
		return;
	n = n + m >= (int)sizeof line ? (int)sizeof line - 1 : n + m;
	line[n++] = '\n'; /* over the terminating NUL; a cut line still ends */
	ssize_t written = write(STDERR_FILENO, line, (size_t)n);
	(void)written; /* nobody is left to tell */
}
