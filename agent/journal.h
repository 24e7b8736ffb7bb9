/* journal -- the append-only log of one job, one JSON object a line: events that everybody may read, and the
 * agent's own notes between them. What a crash leaves of it is a prefix: journal_open cuts off a torn end,
 * which is what follows the last line feed, and nothing else. */
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
    int fd;     /* -1: it rests */
    char *path; /* to read it while it rests */
    bool is_open;
    off_t end;
    uint64_t n_events;
    off_t *marks; /* where event 1, 257, 513, ... begins: a reader far behind need not start at the top */
    size_t n_marks, marks_size;
};

/* Called for each line at journal_open; less than 0 refuses it, and with it the journal. */
typedef int journal_replay(void *arg, const struct event *ev, struct err *e);

/* Opens (makes) the file. A torn end is no error, it is cut off and *cut says how many bytes that were.
 * ERR_CONFIG: a whole line is bad or refused, and the file is left as it is; ERR_IO, ERR_NOMEM. */
int journal_open(struct journal *j, const char *path, journal_replay *replay, void *arg, off_t *cut,
                 struct err *e);
void journal_close(struct journal *j);
/* Gives the descriptor back: many ended jobs are kept. It can still be read, and nothing be appended. */
void journal_rest(struct journal *j);

/* Appends the line of `ev`, wholly or not at all; `sync`: it is on the disk when this returns. On a full disk
 * an END still finds room, if the file system can keep some. */
int journal_append(struct journal *j, const struct event *ev, bool sync, struct err *e);

/* Where the events with a seq above `after` begin. */
off_t journal_seek(const struct journal *j, uint64_t after);

/* Reads the next event line at *at, without its line feed but with a zero, and moves *at behind it. False:
 * there is none yet. Notes are passed over. */
bool journal_next(const struct journal *j, off_t *at, char line[EVENT_LINE_MAX + 1], size_t *len);

#endif
