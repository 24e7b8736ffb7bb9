#include "shared/trainer/trainer_package.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/utf8.h"

bool trainer_package_has_name(const char *path)
{
    if (!path[0] || strlen(path) >= TENSOR_NAME || strcmp(path, "__metadata__") == 0 || !utf8_is_clean(path))
        return false;
    for (const char *part = path;; part++) {
        size_t n = strcspn(part, "/");

        if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && memcmp(part, "..", 2) == 0))
            return false;
        part += n;
        if (!*part)
            return true;
    }
}

/* The names of the executable files, each followed by a line feed, which no name has. NULL: no memory. */
static char *join_executables(const struct trainer_file *files, size_t n)
{
    char *list = calloc(n + 1, TENSOR_NAME + 1);
    size_t at = 0;

    for (size_t i = 0; list && i < n; i++)
        if (files[i].is_executable)
            at += (size_t)sprintf(list + at, "%s\n", files[i].name);
    return list;
}

int trainer_package_write(const char *path, const struct trainer_file *files, size_t n,
                          const struct trainer_main *main, struct err *e)
{
    struct tensor_view *t = calloc(n + 1, sizeof *t);
    char *executables = join_executables(files, n);
    const struct tensor_meta meta[] = {
        {"main", main->file}, {"python", main->is_python ? "1" : "0"}, {"executables", executables}, {0}};
    int rc;

    for (size_t i = 0; t && i < n; i++) {
        t[i] = (struct tensor_view){.type = TENSOR_U8, .n_dims = 1, .shape = {files[i].len}};
        t[i].data = files[i].bytes;
        memcpy(t[i].name, files[i].name, sizeof t[i].name);
    }
    rc = t && executables ? tensor_file_write_unsynced(path, t, n, meta, e)
                          : err_set(e, ERR_NOMEM, "no memory for a program of %zu files", n);
    free(executables);
    free(t);
    return rc;
}

/* Is the name a line of the list? */
static bool is_listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    while (*list) {
        size_t line = strcspn(list, "\n");

        if (line == n && memcmp(list, name, n) == 0)
            return true;
        list += line + (list[line] == '\n');
    }
    return false;
}

/* Creates the folders above the file. */
static int make_folders(const char *folder, const char *name, struct err *e)
{
    char path[TENSOR_NAME], below[PATH_MAX];

    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(path, sizeof path, "%.*s", (int)(slash - name), name);
        if (file_join(below, sizeof below, folder, path, e) < 0)
            return e->code;
        if (mkdir(below, 0777) < 0 && errno != EEXIST)
            return err_errno(e, ERR_IO, "%s", below);
    }
    return 0;
}

static int unpack_file(const struct tensor_view *t, bool is_executable, const char *folder, struct err *e)
{
    char path[PATH_MAX];
    int fd, rc;

    if (make_folders(folder, t->name, e) < 0 || file_join(path, sizeof path, folder, t->name, e) < 0)
        return e->code;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, is_executable ? 0777 : 0666);
    if (fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    rc = file_write_all(fd, t->data, tensor_bytes(t), path, e);
    if (close(fd) < 0 && rc == 0)
        rc = err_errno(e, ERR_IO, "%s", path);
    return rc;
}

/* Reads what is to be run, and checks names and sizes. */
static int check_package(struct trainer_main *main, const struct tensor_file *f, struct err *e)
{
    const char *name = tensor_file_meta(f, "main"), *python = tensor_file_meta(f, "python");
    size_t bytes = 0;

    if (!name || !python || !tensor_file_meta(f, "executables") || !tensor_file_find(f, name))
        return err_set(e, ERR_CONFIG, "it does not say which of its files is run");
    if (f->n > TRAINER_FILES_MAX)
        return err_set(e, ERR_CONFIG, "%zu files, at most %d", f->n, TRAINER_FILES_MAX);
    for (size_t i = 0; i < f->n; i++) {
        const struct tensor_view *t = &f->tensors[i];

        if (t->type != TENSOR_U8 || t->n_dims != 1)
            return err_set(e, ERR_CONFIG, "%s is no file", t->name);
        if (!trainer_package_has_name(t->name))
            return err_set(e, ERR_CONFIG, "\"%s\" is no path below a folder", t->name);
        bytes += tensor_bytes(t); /* together at most the length of the file */
    }
    if (bytes > TRAINER_BYTES_MAX)
        return err_set(e, ERR_CONFIG, "its files have %zu bytes, at most %d", bytes, TRAINER_BYTES_MAX);
    snprintf(main->file, sizeof main->file, "%s", name);
    main->is_python = strcmp(python, "1") == 0;
    return 0;
}

int trainer_package_unpack(struct trainer_main *main, const char *path, const char *folder, struct err *e)
{
    struct tensor_file f;
    int rc;

    if (tensor_file_open(&f, path, e) < 0)
        return e->code;
    rc = check_package(main, &f, e) < 0 ? err_at(e, "%s", path) : 0;
    if (rc == 0 && mkdir(folder, 0777) < 0)
        rc = err_errno(e, ERR_IO, "%s", folder);
    for (size_t i = 0; rc == 0 && i < f.n; i++)
        rc = unpack_file(&f.tensors[i], is_listed(tensor_file_meta(&f, "executables"), f.tensors[i].name),
                         folder, e);
    tensor_file_close(&f);
    return rc;
}
