/* pack: writes the packages of all nodes, and what each node needs to start, into a job folder
 * (shared/job/job_folder.h). Its document comes last, so that a folder without one is incomplete. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "submit/job/node_reservation.h"
#include "submit/results/job_index.h"
#include "submit/stages/stages.h"

enum { COPIED_AT_ONCE = 1 << 20 };

static int copy_file(int to, const struct blob *b, const char *path, struct err *e)
{
    char *part = malloc(COPIED_AT_ONCE);
    size_t at = 0;
    ssize_t n = 1;

    if (!part)
        return err_set(e, ERR_NOMEM, "no memory to copy %s", path);
    while (at < b->len && e->code == 0 && (n = pread(b->fd, part, COPIED_AT_ONCE, (off_t)at)) > 0) {
        file_write_all(to, part, (size_t)n, path, e);
        at += (size_t)n;
    }
    if (e->code == 0 && n < 0)
        err_errno(e, ERR_IO, "a file of the job");
    free(part);
    return e->code;
}

/* Writes the file under its SHA-256; one that several nodes have is written once. */
static int put_file(const struct submission *s, const struct blob *b, struct err *e)
{
    char name[SHA256_HEX + 16], path[PATH_MAX];
    int fd, rc;

    snprintf(name, sizeof name, JOB_FOLDER_PACKAGES "/%s", b->hex);
    if (file_join(path, sizeof path, s->job_folder, name, e) < 0)
        return e->code;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (fd < 0)
        return errno == EEXIST ? 0 : err_errno(e, ERR_IO, "%s", path);
    *e = (struct err){0};
    rc = b->bytes ? file_write_all(fd, b->bytes, b->len, path, e) : copy_file(fd, b, path, e);
    if (close(fd) < 0 && rc == 0)
        rc = err_errno(e, ERR_IO, "%s", path);
    return rc;
}

static bool needs(const struct submission *s, const struct job_node *n, enum package p)
{
    const struct settings *set = &s->settings;

    if (p == PACKAGE_WEIGHTS)
        return set->starts_from != STARTS_FROM_SEED;
    if (p == PACKAGE_TRAINER)
        return set->trainer[0] && !node_is_server(n);
    return p != PACKAGE_DATA || (!set->trainer[0] && !node_is_server(n));
}

static json_t *put_node(const struct submission *s, const struct job_node *n, struct err *e)
{
    json_t *packages = json_object();
    json_t *o = json_pack("{s:o, s:o}", "reservation", node_reservation_json(s, n), "packages", packages);

    if (!o)
        err_set(e, ERR_NOMEM, "no memory for the job's document");
    for (int p = 0; o && p < N_PACKAGES; p++) {
        struct package_file files[PACKAGE_FILES_MAX];
        int n_files = needs(s, n, (enum package)p) ? node_package_files(files, s, n, (enum package)p) : 0;

        for (int i = 0; i < n_files; i++)
            if (put_file(s, files[i].blob, e) < 0) {
                json_decref(o);
                return NULL;
            }
        if (n_files > 0)
            json_object_set_new(packages, package_names[p], node_package_json(s, n, (enum package)p));
    }
    return o;
}

static int put_text(const struct submission *s, const char *name, const char *text, struct err *e)
{
    char path[PATH_MAX];

    return file_join(path, sizeof path, s->job_folder, name, e) < 0
               ? e->code
               : file_write(path, text, strlen(text), 0600, e);
}

static int put_secret(const struct submission *s, struct err *e)
{
    uint8_t raw[SHA256_BYTES];
    char hex[SHA256_HEX];
    int rc;

    random_bytes(raw, sizeof raw);
    hex_encode(hex, raw, sizeof raw);
    rc = put_text(s, JOB_FOLDER_SECRET, hex, e);
    explicit_bzero(raw, sizeof raw);
    explicit_bzero(hex, sizeof hex);
    return rc;
}

static int put_document(const struct submission *s, json_t *nodes, struct err *e)
{
    json_t *o = json_pack("{s:i, s:o, s:O}", "version", 1, "record", job_index_json(s), "nodes", nodes);
    char *text = o ? json_dump(o, JSON_INDENT(1)) : NULL;
    int rc = text ? put_text(s, JOB_FOLDER_DOCUMENT, text, e)
                  : err_set(e, ERR_NOMEM, "no memory for the job's document");

    free(text);
    json_decref(o);
    return rc;
}

static bool is_empty(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *f;
    bool is_so = true;

    while (d && (f = readdir(d)) != NULL)
        is_so &= strcmp(f->d_name, ".") == 0 || strcmp(f->d_name, "..") == 0;
    if (d)
        closedir(d);
    return is_so;
}

/* Other users of the machine must not read the secret and the data. */
static int make_folders(const struct submission *s, struct err *e)
{
    static const char *const folders[] = {JOB_FOLDER_PACKAGES, JOB_FOLDER_MEET};
    char path[PATH_MAX];

    if (job_folder_is(s->job_folder)) {
        err_set(e, ERR_CONFLICT, "%s has a job already", s->job_folder);
        return err_hint(e, "job_submit resume %s says how it goes on; -o names a folder for another job.",
                        s->job_folder);
    }
    if (!is_empty(s->job_folder)) {
        err_set(e, ERR_CONFLICT, "%s is not empty", s->job_folder);
        return err_hint(e, "Name another folder: -o DIR");
    }
    if (file_mkdirs(s->job_folder, 0700, e) < 0)
        return e->code;
    if (chmod(s->job_folder, 0700) < 0)
        return err_errno(e, ERR_IO, "%s", s->job_folder);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (file_join(path, sizeof path, s->job_folder, folders[i], e) < 0 || file_mkdirs(path, 0700, e) < 0)
            return e->code;
    return 0;
}

static int put_all(struct submission *s, struct err *e)
{
    json_t *nodes = json_array();
    int rc = put_secret(s, e);

    for (size_t i = 0; rc == 0 && i < s->n_nodes; i++) {
        json_t *node = put_node(s, &s->nodes[i], e);

        rc = node ? 0 : e->code;
        json_array_append_new(nodes, node);
    }
    if (rc == 0)
        rc = put_document(s, nodes, e);
    json_decref(nodes);
    return rc;
}

int stage_pack(struct submission *s, struct err *e)
{
    struct err ignored;

    if (make_folders(s, e) < 0)
        return err_at(e, "the job folder cannot be written");
    if (put_all(s, e) == 0)
        return 0;
    file_remove_tree(s->job_folder, &ignored);
    return err_at(e, "the job folder cannot be written");
}
