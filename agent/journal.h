/* journal -- the append-only log of one job, one JSON object a line: public events, and the agent's private
 * notes between them. After a crash it holds a prefix of what was written: journal_open cuts off a torn
 * end, which is what follows the last line feed, and nothing else. */
#ifndef PSGD_JOURNAL_H
#define PSGD_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/event.h"

enum { JOURNAL_MARK_EVERY = 256, JOURNAL_MAX_BYTES = 64 << 20 };

/* {0} is a journal that is not open. */
struct journal {
    int fd;     /* -1: closed by journal_rest */
    char *path; /* to read it without a descriptor */
    bool is_open;
    off_t end;
    uint64_t n_events;
    off_t *marks; /* offsets of event 1, 257, 513, ...: a reader need not start at the top */
    size_t n_marks, marks_size;
};

/* Called for each line at journal_open; a negative result rejects the line, and with it the journal. */
typedef int journal_replay(void *arg, const struct event *ev, struct err *e);

/* Opens or creates the file. A torn end is no error: it is cut off, and *cut is its length in bytes.
 * ERR_CONFIG: a whole line is bad or rejected, and the file is unchanged; ERR_IO, ERR_NOMEM. */
int journal_open(struct journal *j, const char *path, journal_replay *replay, void *arg, off_t *cut,
                 struct err *e);
void journal_close(struct journal *j);
/* Closes the descriptor, as many ended jobs are kept. The journal can still be read, but not appended to. */
void journal_rest(struct journal *j);

/* Appends the line of `ev`, completely or not at all; `sync`: it is on disk when this returns. On a full
 * disk an END event still has room, if the file system can reserve some. */
int journal_append(struct journal *j, const struct event *ev, bool sync, struct err *e);

/* Returns the offset of the first event with a seq above `after`. */
off_t journal_seek(const struct journal *j, uint64_t after);

/* Reads the next event line at *at, without its line feed and zero-terminated, and moves *at past it.
 * Returns false if there is none yet. Notes are skipped. */
bool journal_next(const struct journal *j, off_t *at, char line[EVENT_LINE_MAX + 1], size_t *len);

#endif
