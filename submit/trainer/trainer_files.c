#include "submit/trainer/trainer_files.h"

#include <dirent.h>
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
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

enum { PRINTED = 20, DEPTH_MAX = 32 };

static const char *const left_out[] = {".git", "__pycache__", ".venv", NULL};

static bool is_left_out(const char *name)
{
    for (const char *const *l = left_out; *l; l++)
        if (strcmp(*l, name) == 0)
            return true;
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Has the folder results of a job, or links to them, as logs/ has? */
static bool has_results(int fd)
{
    char ignored;

    return (faccessat(fd, "run.json", F_OK, 0) == 0 && faccessat(fd, "records", F_OK, 0) == 0) ||
           readlinkat(fd, "latest", &ignored, 1) > 0;
}

static void leave_out_results(struct trainer_files *f, const char *below)
{
    size_t at = strlen(f->results);

    snprintf(f->results + at, sizeof f->results - at, "%s%s", at > 0 ? ", " : "", below);
}

static int hint_data(struct err *e)
{
    return err_hint(e, "Data is not sent with a program: keep it in another folder, at the same path on each "
                       "machine, and give that path as an argument, after --.");
}

static int too_many_bytes(const struct trainer_files *f, const char *name, uint64_t more, struct err *e)
{
    char most[TEXT_AMOUNT], before[TEXT_AMOUNT], this[TEXT_AMOUNT];

    err_set(e, ERR_CONFIG, "the files of a program may have %s together: %s has %s, and those before it %s",
            text_bytes(most, TRAINER_BYTES_MAX), name, text_bytes(this, more), text_bytes(before, f->bytes));
    return hint_data(e);
}

/* Reads the open file `fd` as the next one. */
static int read_file(struct trainer_files *f, const char *name, int fd, const struct stat *st, struct err *e)
{
    struct trainer_file *file = &f->files[f->n];
    char path[FILE_FD_PATH], *bytes;
    size_t len;

    if (f->n == TRAINER_FILES_MAX) {
        err_set(e, ERR_CONFIG, "a program may have %d files, and this folder has more", TRAINER_FILES_MAX);
        return hint_data(e);
    }
    if (!trainer_package_has_name(name))
        return err_set(e, ERR_CONFIG,
                       "%.200s: the path is not UTF-8 that can be printed, or has %d bytes or more", name,
                       TENSOR_NAME);
    if ((uint64_t)st->st_size > TRAINER_BYTES_MAX - f->bytes)
        return too_many_bytes(f, name, (uint64_t)st->st_size, e);
    file_fd_path(path, fd);
    if (file_read(&bytes, &len, path, TRAINER_BYTES_MAX - f->bytes, e) < 0)
        return err_at(e, "%s", name);
    *file = (struct trainer_file){.bytes = bytes, .len = len, .is_executable = (st->st_mode & 0111) != 0};
    snprintf(file->name, sizeof file->name, "%s", name);
    f->bytes += len;
    f->n++;
    return 0;
}

static int read_folder(struct trainer_files *f, const char *below, int fd, int depth, struct err *e);

/* Reads what has this name in the folder `dir`; `below`: its path in the program's folder. */
static int read_entry(struct trainer_files *f, const char *below, int dir, const char *name, int depth,
                      struct err *e)
{
    /* O_NONBLOCK: a pipe would wait for a writer. */
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), rc;
    struct stat st;

    if (fd < 0 && errno == ELOOP) {
        err_set(e, ERR_CONFIG, "%s is a symbolic link", below);
        return err_hint(e,
                        "A program's folder may have regular files and folders only: copy the file there.");
    }
    if (fd < 0 || fstat(fd, &st) < 0)
        rc = err_errno(e, ERR_IO, "%s", below);
    else if (S_ISDIR(st.st_mode) && has_results(fd)) {
        leave_out_results(f, below);
        rc = 0;
    } else if (S_ISDIR(st.st_mode))
        return read_folder(f, below, fd, depth + 1, e);
    else if (S_ISREG(st.st_mode))
        rc = read_file(f, below, fd, &st, e);
    else
        rc = err_set(e, ERR_CONFIG, "%s: neither a regular file nor a folder", below);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Reads all files of the folder `take_fd`, which it closes. */
static int read_folder(struct trainer_files *f, const char *below, int take_fd, int depth, struct err *e)
{
    DIR *dir = fdopendir(take_fd);
    const struct dirent *d;
    int rc = 0;

    if (!dir) {
        err_errno(e, ERR_IO, "%s", below);
        close(take_fd);
        return e->code;
    }
    if (depth > DEPTH_MAX)
        rc = err_set(e, ERR_CONFIG, "%s: more than %d folders, one in the other", below, DEPTH_MAX);
    while (rc == 0 && (errno = 0, d = readdir(dir)) != NULL) {
        char path[PATH_MAX];

        if (is_left_out(d->d_name))
            continue;
        if (snprintf(path, sizeof path, "%s%s%s", below, below[0] ? "/" : "", d->d_name) >= (int)sizeof path)
            rc = err_set(e, ERR_CONFIG, "%s: the path is too long", below);
        else
            rc = read_entry(f, path, dirfd(dir), d->d_name, depth, e);
    }
    if (rc == 0 && errno != 0)
        rc = err_errno(e, ERR_IO, "%s", below);
    closedir(dir);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct trainer_file *)a)->name, ((const struct trainer_file *)b)->name);
}

static const struct trainer_file *find_file(const struct trainer_files *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->files[i].name, name) == 0)
            return &f->files[i];
    return NULL;
}

static int choose_main(struct trainer_files *f, const char *name, struct err *e)
{
    const struct trainer_file *file = find_file(f, name);

    if (!file) {
        err_set(e, ERR_NOT_FOUND, "there is no file %s in it", name);
        return err_hint(e, "--main NAME says which of its files is run.");
    }
    memcpy(f->main.file, file->name, sizeof f->main.file);
    f->main.is_python = file_has_ending(name, ".py");
    if (f->main.is_python || file->is_executable)
        return 0;
    err_set(e, ERR_CONFIG, "%s is neither a .py file nor executable", name);
    return err_hint(e, "chmod +x makes a file executable.");
}

/* The name of the file itself, also if the path is a link to it. */
static int read_one(struct trainer_files *f, const char *path, int fd, const struct stat *st, struct err *e)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return read_file(f, name, fd, st, e) < 0 ? e->code : choose_main(f, name, e);
}

/* Names the folder, as job_submit may have been started in another one. */
static int report_missing(const char *path, struct err *e)
{
    char folder[PATH_MAX];

    if (file_absolute(folder, sizeof folder, path, e) < 0)
        return e->code;
    *strrchr(folder, '/') = '\0';
    return err_set(e, ERR_NOT_FOUND, "there is no such file or folder in %s", folder[0] ? folder : "/");
}

static int read_program(struct trainer_files *f, const char *path, const char *main, struct err *e)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), rc;
    struct stat st;

    if (fd < 0)
        return errno == ENOENT ? report_missing(path, e) : err_errno(e, ERR_IO, "cannot be read");
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        f->is_folder = true;
        rc = read_folder(f, "", fd, 1, e);
        qsort(f->files, f->n, sizeof *f->files, by_name);
        return rc < 0 ? rc : choose_main(f, main[0] ? main : TRAINER_MAIN, e);
    }
    if (!S_ISREG(st.st_mode))
        rc = err_set(e, ERR_CONFIG, "neither a regular file nor a folder");
    else if (main[0])
        rc = err_set(e, ERR_USAGE, "--main %s names a file in a folder, and this is a file", main);
    else
        rc = read_one(f, path, fd, &st, e);
    close(fd);
    return rc;
}

int trainer_files_read(struct trainer_files *out, const char *path, const char *main, struct err *e)
{
    *out = (struct trainer_files){.files = calloc(TRAINER_FILES_MAX, sizeof *out->files)};
    if (!out->files)
        return err_set(e, ERR_NOMEM, "no memory for the files of a program");
    if (read_program(out, path, main, e) == 0)
        return 0;
    trainer_files_clear(out);
    return err_at(e, "--trainer %s", path);
}

void trainer_files_clear(struct trainer_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        free((void *)(uintptr_t)f->files[i].bytes);
    free(f->files);
    *f = (struct trainer_files){0};
}

void trainer_files_print(const struct trainer_files *f)
{
    char amount[TEXT_AMOUNT];

    console_info("The program %s: %zu file%s, %s.", f->main.file, f->n, f->n == 1 ? "" : "s",
                 text_bytes(amount, f->bytes));
    for (size_t i = 0; i < f->n; i++)
        (i < PRINTED ? console_info : console_more)("\t %s, %s", f->files[i].name,
                                                    text_bytes(amount, f->files[i].len));
    if (f->n > PRINTED)
        console_info("\t and %zu more, which -v lists", f->n - PRINTED);
    if (f->results[0])
        console_info("\t without results of psgd's: %s", f->results);
}
