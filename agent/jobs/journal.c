#include "agent/jobs/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/crc32c.h"
#include "shared/base/file.h"

static const char event_head[] = "{\"seq\":";

/* Before an event is written, so that counting it cannot fail afterwards. */
static int make_room_for_mark(struct journal *j, struct err *e)
{
    size_t size = j->marks_size ? 2 * j->marks_size : 16;
    struct journal_mark *more;

    if (j->n_marks < j->marks_size)
        return 0;
    more = realloc(j->marks, size * sizeof *more);
    if (!more)
        return err_set(e, ERR_NOMEM, "no memory for the journal's marks");
    j->marks = more;
    j->marks_size = size;
    return 0;
}

static void count_event(struct journal *j, uint64_t seq, off_t at)
{
    if (j->n_events++ % JOURNAL_MARK_EVERY == 0)
        j->marks[j->n_marks++] = (struct journal_mark){seq, at};
}

static int replay_line(struct journal *j, struct event *ev, const char *line, size_t len, off_t at,
                       const struct journal_replay *replay, struct err *e)
{
    int rc;

    if (make_room_for_mark(j, e) < 0 || event_parse_line(ev, line, len, false, e) < 0)
        return e->code;
    /* journal_next finds events by how their lines begin. */
    if (!event_is_note(ev) &&
        (len < sizeof event_head - 1 || memcmp(line, event_head, sizeof event_head - 1) != 0))
        rc = err_set(e, ERR_CONFIG, "it does not begin with %s", event_head);
    else
        rc = replay->event(replay->arg, ev, e);
    if (rc == 0 && !event_is_note(ev))
        count_event(j, ev->seq, at);
    return rc;
}

static bool is_blank(const char *line, size_t len)
{
    while (len > 0 && line[len - 1] == ' ')
        len--;
    return len == 0;
}

/* Replays every whole line and makes the damaged ones blank; j->end is where the last one ends. */
static int replay_lines(struct journal *j, char *text, size_t len, const struct journal_replay *replay,
                        size_t *n_damaged, struct err *e)
{
    struct event *ev = malloc(sizeof *ev);
    size_t at = 0, n_lines = 0, n;
    const char *lf;

    if (!ev)
        return err_set(e, ERR_NOMEM, "no memory to read a journal");
    for (; at < len && (lf = memchr(text + at, '\n', len - at)) != NULL; at += n + 1) {
        n = (size_t)(lf - text) - at;
        n_lines++;
        if (is_blank(text + at, n)) {
            replay->damage(replay->arg, n_lines, NULL);
        } else if (replay_line(j, ev, text + at, n, (off_t)at, replay, e) < 0) {
            if (e->code == ERR_NOMEM) {
                free(ev);
                return e->code;
            }
            replay->damage(replay->arg, n_lines, e->text);
            memset(text + at, ' ', n);
            ++*n_damaged;
        }
    }
    free(ev);
    j->end = (off_t)at;
    return 0;
}

/* Replaces the file as a whole by one that has never seen an error. */
static int write_anew(struct journal *j, const char *text, size_t len, struct err *e)
{
    char fresh[PATH_MAX];
    int fd;

    if (file_temporary(fresh, sizeof fresh, j->path, e) < 0)
        return e->code;
    fd = open(fresh, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_errno(e, ERR_IO, "%s", fresh);
    if (file_write_all(fd, text, len, fresh, e) < 0)
        goto fail;
    if (fsync(fd) < 0 || rename(fresh, j->path) < 0) {
        err_errno(e, ERR_IO, "%s", fresh);
        goto fail;
    }
    close(j->fd);
    j->fd = fd;
    j->is_unsynced = false;
    j->is_doubtful = file_sync_name(j->path, e) < 0;
    return j->is_doubtful ? e->code : 0;
fail:
    close(fd);
    unlink(fresh);
    return e->code;
}

/* Keeps the file as it was, and writes the text with blank lines in its place. */
static int replace_damaged(struct journal *j, const char *text, struct err *e)
{
    char aside[PATH_MAX];

    if (snprintf(aside, sizeof aside, "%s" JOURNAL_DAMAGED, j->path) >= (int)sizeof aside)
        return err_set(e, ERR_CONFIG, "%s: path too long", j->path);
    if (link(j->path, aside) < 0 && errno != EEXIST)
        return err_errno(e, ERR_IO, "%s", aside);
    return write_anew(j, text, (size_t)j->end, e);
}

int journal_open(struct journal *j, const char *path, const struct journal_replay *replay, off_t *cut,
                 struct err *e)
{
    char *text = NULL;
    size_t len, n_damaged = 0;

    *j = (struct journal){.fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (j->fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    j->is_open = true;
    j->path = strdup(path);
    if (!j->path) {
        err_set(e, ERR_NOMEM, "no memory for a journal's path");
        goto fail;
    }
    /* Read, not mapped: a bad sector is then an error and not a signal. */
    if (file_read(&text, &len, path, SIZE_MAX, e) < 0 ||
        replay_lines(j, text, len, replay, &n_damaged, e) < 0)
        goto fail;
    *cut = (off_t)len - j->end;
    if (n_damaged > 0 && replace_damaged(j, text, e) < 0)
        goto fail;
    if (n_damaged == 0 && *cut > 0 && (ftruncate(j->fd, j->end) < 0 || fdatasync(j->fd) < 0))
        j->is_doubtful = true;
    j->crc = crc32c(text, (size_t)j->end);
    free(text);
    return 0;
fail:
    free(text);
    journal_close(j);
    return e->code;
}

void journal_rest(struct journal *j)
{
    if (j->is_open && j->fd >= 0)
        close(j->fd);
    j->fd = -1;
}

void journal_close(struct journal *j)
{
    journal_rest(j);
    free(j->path);
    free(j->marks);
    *j = (struct journal){0};
}

/* Ends the doubt about the file's content. */
static int recover(struct journal *j, struct err *e)
{
    size_t n = 0, len = (size_t)j->end;
    char *text = malloc(len + 1);
    ssize_t k = 1;
    int rc;

    if (!text)
        return err_set(e, ERR_NOMEM, "no memory to write a journal anew");
    while (n < len && k > 0) {
        k = pread(j->fd, text + n, len - n, (off_t)n);
        if (k < 0 && errno == EINTR)
            k = 1;
        else if (k > 0)
            n += (size_t)k;
    }
    if (n < len || crc32c(text, len) != j->crc)
        rc = err_set(e, ERR_IO, "journal: what was written to it cannot be read back");
    else
        rc = write_anew(j, text, len, e);
    free(text);
    return rc;
}

int journal_sync(struct journal *j, struct err *e)
{
    if (j->is_doubtful)
        return recover(j, e);
    if (j->is_unsynced && fdatasync(j->fd) < 0) {
        j->is_doubtful = true;
        return err_errno(e, ERR_IO, "journal");
    }
    j->is_unsynced = false;
    return 0;
}

int journal_append(struct journal *j, const struct event *ev, bool sync, struct err *e)
{
    char *line;
    size_t len;

    if (make_room_for_mark(j, e) < 0 || (j->is_doubtful && recover(j, e) < 0))
        return e->code;
    line = event_line(ev);
    if (!line)
        return err_set(e, ERR_NOMEM, "no memory for an event");
    len = strlen(line);
    /* The end of a job is recorded on a full disk, too: every other line leaves room for it. */
    if (!file_keep_room(j->fd, len + (ev->kind == EVENT_END ? 0 : EVENT_LINE_MAX))) {
        free(line); /* without ftruncate(), which would give up the room that is left for the end */
        return err_set(e, ERR_NOSPACE, "journal: no room on the disk");
    }
    if (file_write_all(j->fd, line, len, "journal", e) < 0)
        goto fail;
    if (sync && fdatasync(j->fd) < 0) {
        err_errno(e, ERR_IO, "journal");
        j->is_doubtful = true;
        goto fail;
    }
    j->is_unsynced = !sync;
    if (!event_is_note(ev))
        count_event(j, ev->seq, j->end);
    j->end += (off_t)len;
    j->crc = crc32c_more(j->crc, line, len);
    free(line);
    return 0;
fail:
    free(line);
    /* A partial line would make the next one unreadable. */
    if (ftruncate(j->fd, j->end) < 0)
        j->is_doubtful = true;
    return e->code;
}

static size_t read_at(const struct journal *j, off_t at, char *buf, size_t size)
{
    off_t left = j->end - at;
    ssize_t n;
    int fd;

    if (left <= 0)
        return 0;
    if ((off_t)size > left)
        size = (size_t)left;
    fd = j->fd < 0 ? open(j->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : j->fd;
    do
        n = pread(fd, buf, size, at);
    while (n < 0 && errno == EINTR);
    if (j->fd < 0 && fd >= 0)
        close(fd);
    return n < 0 ? 0 : (size_t)n;
}

bool journal_next(const struct journal *j, off_t *at, char line[EVENT_LINE_MAX + 1], size_t *len)
{
    bool in_note = false;
    size_t n;

    while ((n = read_at(j, *at, line, EVENT_LINE_MAX)) > 0) {
        const char *lf = memchr(line, '\n', n);

        if (!in_note &&
            strncmp(line, event_head, n < sizeof event_head - 1 ? n : sizeof event_head - 1) == 0) {
            if (!lf)
                return false; /* no event is that long: an incomplete line without a writer */
            *len = (size_t)(lf - line);
            line[*len] = '\0';
            *at += (off_t)*len + 1;
            return true;
        }
        in_note = !lf;
        *at += lf ? lf - line + 1 : (off_t)n;
    }
    return false;
}

off_t journal_seek(const struct journal *j, uint64_t after)
{
    char line[EVENT_LINE_MAX + 1];
    size_t low = 0, high = j->n_marks, len;
    off_t at, next;

    if (j->n_marks == 0)
        return j->end;
    while (high - low > 1) { /* the last mark with a seq that is at most after + 1 */
        size_t middle = low + (high - low) / 2;

        *(j->marks[middle].seq <= after + 1 ? &low : &high) = middle;
    }
    at = next = j->marks[low].at;
    while (journal_next(j, &next, line, &len)) {
        if (strtoull(line + sizeof event_head - 1, NULL, 10) > after)
            return at;
        at = next;
    }
    return next;
}
