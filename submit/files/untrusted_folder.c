#include "submit/files/untrusted_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/json.h"

int untrusted_open(int *dir, const char *path, struct err *e)
{
    *dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *dir < 0 ? err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path) : 0;
}

/* Whether the last call has failed because this process has no descriptor or memory left, not because of the
 * folder. */
static bool lacks_resources(void)
{
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM;
}

int untrusted_enter(int *sub, int dir, const char *name, struct err *e)
{
    *sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *sub < 0 ? err_errno(e, lacks_resources() ? ERR_IO : ERR_NOT_FOUND, "%s", name) : 0;
}

static int not_found(const char *path, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "%.200s: there is no such file in the folder", path);
}

static int not_opened(const char *path, struct err *e)
{
    return lacks_resources() ? err_errno(e, ERR_IO, "%.200s", path) : not_found(path, e);
}

/* Opens the folder of the path's last name, *name. The caller closes *dir if it is not `from`. */
static int descend(int *dir, const char **name, int from, const char *path, struct err *e)
{
    int at = from;

    for (const char *p = path;; p += strcspn(p, "/") + 1) {
        size_t len = strcspn(p, "/");
        char part[NAME_MAX + 1];
        int next;

        if (len == 0 || len > NAME_MAX || p[0] == '.')
            break;
        memcpy(part, p, len);
        part[len] = '\0';
        if (!p[len]) {
            *name = p;
            *dir = at;
            return 0;
        }
        next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (at != from)
            close(at); /* a successful close() leaves errno unchanged */
        at = next;
        if (at < 0)
            return not_opened(path, e);
    }
    if (at != from)
        close(at);
    return not_found(path, e);
}

int untrusted_file(int *fd, uint64_t *bytes, int dir, const char *path, struct err *e)
{
    const char *name = NULL;
    struct stat st;
    int at = -1;

    if (descend(&at, &name, dir, path, e) < 0)
        return e->code;
    *fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (at != dir)
        close(at);
    if (*fd < 0)
        return not_opened(path, e);
    if (fstat(*fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(*fd);
        return not_found(path, e);
    }
    *bytes = (uint64_t)st.st_size;
    return 0;
}

int untrusted_text(char **out, size_t *len, int dir, const char *path, size_t max, struct err *e)
{
    uint64_t bytes;
    off_t from;
    int fd;

    if (untrusted_file(&fd, &bytes, dir, path, e) < 0)
        return e->code;
    from = bytes > max ? (off_t)(bytes - max) : 0;
    *len = 0;
    *out = malloc(bytes - (uint64_t)from + 1);
    if (!*out) {
        close(fd);
        return err_set(e, ERR_NOMEM, "no memory for %.200s", path);
    }
    while (*len <
           bytes - (uint64_t)from) { /* no more than there is memory for: the file may grow meanwhile */
        ssize_t n = pread(fd, *out + *len, bytes - (uint64_t)from - *len, from + (off_t)*len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        *len += (size_t)n;
    }
    (*out)[*len] = '\0';
    close(fd);
    return 0;
}

int untrusted_json(json_t **out, int dir, const char *path, size_t max, struct err *e)
{
    uint64_t bytes;
    char *text;
    size_t len;
    int fd;
    int rc;

    if (untrusted_file(&fd, &bytes, dir, path, e) < 0)
        return e->code;
    close(fd);
    if (bytes > max)
        return err_set(e, ERR_CONFIG, "%.200s has more than %zu bytes", path, max);
    if (untrusted_text(&text, &len, dir, path, max, e) < 0)
        return e->code;
    rc = json_parse(out, text, len, path, e);
    free(text);
    return rc;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static DIR *open_list(int dir)
{
    int copy = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);

    if (d)
        rewinddir(d); /* the copies of a descriptor have one position */
    else if (copy >= 0)
        close(copy);
    return d;
}

static int add_name(char ***names, size_t n, const char *name)
{
    bool is_full = (n & (n - 1)) == 0; /* there is room for 1, 2, 4, ... */
    char **moved = is_full ? realloc(*names, (n ? 2 * n : 1) * sizeof *moved) : *names;

    if (!moved)
        return -1;
    *names = moved;
    moved[n] = strdup(name);
    return moved[n] ? 0 : -1;
}

int untrusted_list(char ***names, size_t *n, int dir, size_t max, struct err *e)
{
    DIR *d = open_list(dir);
    struct dirent *f;
    int rc = d ? 0 : -1;

    *n = 0;
    *names = NULL;
    while (rc == 0 && *n < max && (f = readdir(d)) != NULL)
        if (f->d_name[0] != '.' && (rc = add_name(names, *n, f->d_name)) == 0)
            ++*n;
    if (d)
        closedir(d);
    if (rc == 0) {
        if (*n > 0)
            qsort(*names, *n, sizeof **names, compare_names);
        return 0;
    }
    untrusted_list_free(*names, *n);
    *names = NULL;
    *n = 0;
    return err_set(e, ERR_NOMEM, "a folder cannot be listed");
}

void untrusted_list_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}
