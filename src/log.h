/* Log lines to stderr: "<level>role: text" with journald's priority prefix when stderr is the journal, a plain time
 * stamp otherwise. One write(2) per line, so that lines of several processes never mix. For src/ alone. */
#ifndef WEIGHTD_LOG_H
#define WEIGHTD_LOG_H

enum log_level { LOG_LEVEL_ERROR = 0, LOG_LEVEL_WARNING = 1, LOG_LEVEL_INFO = 2, LOG_LEVEL_DEBUG = 3 };

/* `role` is borrowed for the life of the process ("parent", "worker 0"). Lines above `level` are dropped. */
void log_init(const char *role, enum log_level level);

__attribute__((format(printf, 2, 3))) void log_line(enum log_level level, const char *format, ...);

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
