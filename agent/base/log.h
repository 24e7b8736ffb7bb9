/* log -- one line on stderr for each message, by one write:
 *   2026-11-21T07:31:22.123Z INFO  agent j-1kq8x7m3qfab ready: codec fedavg loaded
 * utf8_clean replaces control characters and invalid UTF-8 by '?', so that a message can neither control a
 * terminal nor fake a second line. Never waits: lines that stderr does not take at once are counted and left
 * out. */
#ifndef PSGD_LOG_H
#define PSGD_LOG_H

enum log_level { LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

/* `program` names the process, `job` is an id or NULL. A line is cut off after 2 KiB. */
void log_line(enum log_level level, const char *program, const char *job, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* From now on every line of this process has this name in place of `program`: the process runs one node of a
 * job folder. */
void log_rename(const char *name);

#endif
