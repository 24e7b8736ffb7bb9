#include "agent/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/file.h"

static const char event_head[] = "{\"seq\":";

static int count_event(struct journal *j, off_t at, struct err *e)
{
    if (j->n_events % JOURNAL_MARK_EVERY == 0) {
        if (j->n_marks == j->marks_size) {
            size_t size = j->marks_size ? 2 * j->marks_size : 16;
            off_t *more = realloc(j->marks, size * sizeof *more);

            if (!more)
                return err_set(e, ERR_NOMEM, "no memory for the journal's marks");
            j->marks = more;
            j->marks_size = size;
        }
        j->marks[j->n_marks++] = at;
    }
    j->n_events++;
    return 0;
}

static int replay_line(struct journal *j, struct event *ev, const char *line, size_t len, off_t at,
                       journal_replay *replay, void *arg, struct err *e)
{
    bool is_note;
    int rc;

    if (event_parse_line(ev, line, len, false, e) < 0)
        return e->code;
    is_note = event_is_note(ev);
    if (!is_note && ev->seq != j->n_events + 1)
        rc = err_set(e, ERR_CONFIG, "event %llu after %llu", (unsigned long long)ev->seq,
                     (unsigned long long)j->n_events);
    else
        rc = replay(arg, ev, e);
    event_clear(ev);
    return rc < 0 || is_note ? rc : count_event(j, at, e);
}

/* Replays every whole line; returns where the last one ends. ERR_CONFIG: a line is bad; ERR_NOMEM. */
static off_t replay_lines(struct journal *j, const char *text, size_t len, journal_replay *replay, void *arg,
                          struct err *e)
{
    struct event *ev = malloc(sizeof *ev);
    const char *lf;
    size_t at = 0;
    size_t n_lines = 0;

    if (!ev)
        return err_set(e, ERR_NOMEM, "no memory to read a journal");
    while (at < len && (lf = memchr(text + at, '\n', len - at)) != NULL) {
        size_t n = (size_t)(lf - text) - at;

        n_lines++;
        if (replay_line(j, ev, text + at, n, (off_t)at, replay, arg, e) < 0) {
            e->code = e->code == ERR_NOMEM ? ERR_NOMEM : ERR_CONFIG;
            free(ev);
            return err_at(e, "line %zu", n_lines);
        }
        at += n + 1;
    }
    free(ev);
    return (off_t)at;
}

int journal_open(struct journal *j, const char *path, journal_replay *replay, void *arg, off_t *cut,
                 struct err *e)
{
    struct stat st;
    char *text = NULL;

    *j = (struct journal){.fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (j->fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    j->is_open = true;
    *cut = 0;
    j->path = strdup(path);
    if (!j->path) {
        err_set(e, ERR_NOMEM, "no memory for a journal's path");
        goto fail;
    }
    if (fstat(j->fd, &st) < 0) {
        err_errno(e, ERR_IO, "%s", path);
        goto fail;
    }
    if (st.st_size > 0) {
        text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, j->fd, 0);
        if (text == MAP_FAILED) {
            err_errno(e, ERR_IO, "%s", path);
            goto fail;
        }
        j->end = replay_lines(j, text, (size_t)st.st_size, replay, arg, e);
        munmap(text, (size_t)st.st_size);
        if (j->end < 0)
            goto fail;
    }
    *cut = st.st_size - j->end;
    if (*cut > 0 && (ftruncate(j->fd, j->end) < 0 || fdatasync(j->fd) < 0)) {
        err_errno(e, ERR_IO, "%s", path);
        goto fail;
    }
    return 0;
fail:
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

int journal_append(struct journal *j, const struct event *ev, bool sync, struct err *e)
{
    char *line = event_line(ev);
    size_t len;

    if (!line)
        return err_set(e, ERR_NOMEM, "no memory for an event");
    len = strlen(line);
    /* The end of a job is recorded on a full disk, too: every other line leaves room for it. */
    if (!file_keep_room(j->fd, len + (ev->kind == EVENT_END ? 0 : EVENT_LINE_MAX))) {
        err_set(e, ERR_NOSPACE, "journal: no room on the disk");
        goto fail;
    }
    if (file_write_all(j->fd, line, len, "journal", e) < 0)
        goto fail;
    if (sync && fdatasync(j->fd) < 0) {
        err_errno(e, ERR_IO, "journal");
        goto fail;
    }
    if (!event_is_note(ev) && count_event(j, j->end, e) < 0)
        goto fail;
    free(line);
    j->end += (off_t)len;
    return 0;
fail:
    free(line);
    /* A partial line would make the next one unreadable. */
    if (ftruncate(j->fd, j->end) < 0)
        return err_errno(e, ERR_IO, "journal");
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
    size_t mark, len;
    off_t at, next;
    uint64_t seq;

    if (after >= j->n_events)
        return j->end;
    mark = (size_t)(after / JOURNAL_MARK_EVERY);
    seq = (uint64_t)mark * JOURNAL_MARK_EVERY + 1;
    at = j->marks[mark];
    for (; seq <= after; seq++) {
        next = at;
        if (!journal_next(j, &next, line, &len))
            break;
        at = next;
    }
    return at;
}
