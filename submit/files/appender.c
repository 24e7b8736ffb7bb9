#include "submit/files/appender.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"

enum { CLOSED = -1 };

static int close_one(struct appender *a, int i, struct err *e)
{
    bool is_whole;
    int rc = 0;

    if (!a->open[i].f)
        return 0;
    is_whole = !ferror(a->open[i].f);
    if (fclose(a->open[i].f) != 0 || !is_whole)
        rc = err_errno(e, errno == ENOSPC ? ERR_NOSPACE : ERR_IO, "%s", a->open[i].path);
    json_object_set_new(a->places, a->open[i].path, json_integer(CLOSED));
    free(a->open[i].path);
    a->open[i].path = NULL;
    a->open[i].f = NULL;
    return rc;
}

/* Opens the file by its temporary name. A new one replaces a temporary file that another process has left. */
static int open_path(const char *path, bool is_new, struct err *e)
{
    char folder[PATH_MAX], temporary[PATH_MAX];
    int fd;

    if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder)
        return err_set(e, ERR_IO, "%s: the name is too long", path);
    if (is_new && file_mkdirs(dirname(folder), 0777, e) < 0)
        return e->code;
    if (file_temporary(temporary, sizeof temporary, path, e) < 0 ||
        (is_new && file_check_replaceable(path, e) < 0))
        return e->code;
    if (is_new && unlink(temporary) < 0 && errno != ENOENT)
        return err_errno(e, ERR_IO, "%s", path);
    fd = open(temporary, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | (is_new ? O_CREAT | O_EXCL : O_APPEND), 0666);
    return fd < 0 ? err_errno(e, ERR_IO, "%s", path) : fd;
}

static int keep_descriptor(struct appender *a, int i, int fd, const char *path, struct err *e)
{
    a->open[i].path = strdup(path);
    a->open[i].f = a->open[i].path ? fdopen(fd, "a") : NULL;
    if (a->open[i].f && json_object_set_new(a->places, path, json_integer(i)) == 0)
        return 0;
    if (a->open[i].f)
        fclose(a->open[i].f);
    else
        close(fd);
    free(a->open[i].path);
    a->open[i].path = NULL;
    a->open[i].f = NULL;
    return err_set(e, ERR_NOMEM, "no memory to write %s", path);
}

int appender_file(struct appender *a, FILE **out, bool *is_new, const char *path, struct err *e)
{
    const json_t *place;
    int i, fd;

    if (!a->places && !(a->places = json_object()))
        return err_set(e, ERR_NOMEM, "no memory to write %s", path);
    place = json_object_get(a->places, path);
    i = place ? (int)json_integer_value(place) : CLOSED;
    *is_new = !place;
    if (i == CLOSED) {
        i = a->next;
        a->next = (i + 1) % APPENDER_OPEN_MAX;
        if (close_one(a, i, e) < 0)
            return e->code;
        fd = open_path(path, *is_new, e);
        if (fd < 0 || keep_descriptor(a, i, fd, path, e) < 0)
            return e->code;
    }
    *out = a->open[i].f;
    return 0;
}

/* Gives a file its name, or removes it. */
static int end_one(const char *path, bool is_whole, struct err *e)
{
    char temporary[PATH_MAX];

    if (file_temporary(temporary, sizeof temporary, path, e) < 0)
        return e->code;
    if (is_whole && rename(temporary, path) == 0)
        return 0;
    if (is_whole)
        err_errno(e, ERR_IO, "%s", path);
    unlink(temporary);
    return is_whole ? e->code : 0;
}

int appender_end(struct appender *a, int rc, struct err *e)
{
    struct err other;
    const char *path;
    json_t *place;

    for (int i = 0; i < APPENDER_OPEN_MAX; i++)
        if (close_one(a, i, rc == 0 ? e : &other) < 0)
            rc = rc == 0 ? e->code : rc;
    json_object_foreach(a->places, path, place) if (end_one(path, rc == 0, rc == 0 ? e : &other) < 0)
        rc = rc == 0 ? e->code : rc;
    json_decref(a->places);
    *a = (struct appender){0};
    return rc;
}
