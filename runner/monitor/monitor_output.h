/* monitor_output -- what the training program writes to stdout and stderr: it is copied to the node's log,
 * and its last words become the job's message. The program may write without end, so the log gets the
 * beginning and, when the program has ended, the last part. No call waits for the program. */
#ifndef PSGD_MONITOR_OUTPUT_H
#define PSGD_MONITOR_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OUTPUT_FIRST = 16 << 20, /* bytes that the log gets as they come */
    OUTPUT_LAST = 16 << 10,  /* of those beyond, the last ones that it gets at the end */
    OUTPUT_LINE = 640        /* of a line that is kept; the rest is cut off */
};

enum { OUTPUT_STDOUT, OUTPUT_STDERR, N_OUTPUTS };

struct monitor_output {
    int fds[N_OUTPUTS]; /* where it is read, without blocking; -1: it has ended. Owned */
    int log_fd;         /* borrowed */
    uint64_t n_read;
    char last_byte;
    int last_which;         /* OUTPUT_STDOUT or OUTPUT_STDERR, of which the last byte is */
    char kept[OUTPUT_LAST]; /* a ring: byte k after the first part is at k modulo its size */

    /* Lines of stderr: the present one, so far; the last one that is not blank; and the one with which the
     * last traceback of Python ends, which names the exception. Text may follow it, of an exception of
     * several lines. */
    char line[OUTPUT_LINE], last[OUTPUT_LINE], raised[OUTPUT_LINE];
    size_t n_line;
    bool is_in_traceback;
};

/* Takes the descriptors, which must not block. */
void monitor_output_open(struct monitor_output *o, int stdout_fd, int stderr_fd, int log_fd);
/* Copies what there is, but not much more than a pipe holds. */
void monitor_output_copy(struct monitor_output *o, int which);
/* After the program's end: copies what is left, ends the log's last line, and closes. Processes that the
 * program has started may still write: the rest of that is dropped. */
void monitor_output_close(struct monitor_output *o);

/* The line of stderr that says best why the program has ended, after monitor_output_close; "": there is none.
 * status: of its exit. */
const char *monitor_output_reason(const struct monitor_output *o, int status);

#endif
