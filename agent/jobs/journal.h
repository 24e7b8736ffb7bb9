/* journal -- the append-only log of one job, one JSON object a line: public events, and the agent's private
 * notes between them. After a crash it holds a prefix of what was written: journal_open cuts off a torn end,
 * which is what follows the last line feed. A damaged line in the middle costs that line: it is replaced by
 * a blank one, and the file as it was is kept beside it, with JOURNAL_DAMAGED at the end of its name. */
#ifndef PSGD_JOURNAL_H
#define PSGD_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/jobs/event.h"

enum { JOURNAL_MARK_EVERY = 256, JOURNAL_MAX_BYTES = 64 << 20 };

#define JOURNAL_DAMAGED ".damaged" /* added to its name */

struct journal_mark {
    uint64_t seq;
    off_t at;
};

/* {0} is a journal that is not open. */
struct journal {
    int fd;     /* -1: closed by journal_rest */
    char *path; /* to open it for reading while fd is -1 */
    bool is_open;
    /* A write or a sync failed. After a failed sync the kernel counts the pages as written, and the next
     * sync succeeds although they may never reach the disk (Rebello et al. 2020, "Can Applications Recover
     * from fsync Failures?"): nothing of the file can be relied on until it is written anew. */
    bool is_doubtful;
    bool is_unsynced; /* a line was appended without a sync */
    off_t end;
    uint32_t crc; /* CRC32C of the bytes before `end`: whether a doubtful file still reads as written */
    uint64_t n_events;
    /* Of the 1st, 257th, 513th, ... event, so that a reader need not start at the first. */
    struct journal_mark *marks;
    size_t n_marks, marks_size;
};

/* What journal_open calls for each line, in order. */
struct journal_replay {
    /* A negative result other than ERR_NOMEM rejects the line: it counts as damaged. */
    int (*event)(void *arg, const struct event *ev, struct err *e);
    /* A line was damaged; why is NULL if it was replaced by a blank one earlier. */
    void (*damage)(void *arg, size_t line, const char *why);
    void *arg;
};

/* Opens or creates the file. A torn end is no error: it is cut off, and *cut is its length in bytes. ERR_IO,
 * ERR_NOSPACE (damaged lines, and no room to keep the file as it was), ERR_NOMEM: the file is unchanged. */
int journal_open(struct journal *j, const char *path, const struct journal_replay *replay, off_t *cut,
                 struct err *e);
void journal_close(struct journal *j);
/* Closes the descriptor, as many ended jobs are kept. The journal can still be read, but not appended to. */
void journal_rest(struct journal *j);

/* Appends the line of `ev`, completely or not at all; `sync`: it is on disk when this returns 0. A journal
 * in doubt is first written anew. On a full disk an END event still has room, if the file system can reserve
 * some. On failure a crash may still find the line in the file, unless another append succeeded meanwhile. */
int journal_append(struct journal *j, const struct event *ev, bool sync, struct err *e);

/* Syncs the lines that were appended without; does nothing if there are none. A journal in doubt is written
 * anew. */
int journal_sync(struct journal *j, struct err *e);

/* Returns the offset of the first event with a seq above `after`, which need not be after + 1. */
off_t journal_seek(const struct journal *j, uint64_t after);

/* Reads the next event line at *at, without its line feed and zero-terminated, and moves *at past it.
 * Returns false if there is none yet. Notes are skipped. */
bool journal_next(const struct journal *j, off_t *at, char line[EVENT_LINE_MAX + 1], size_t *len);

#endif
