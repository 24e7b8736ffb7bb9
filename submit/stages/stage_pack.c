/* pack: writes the packages of all nodes, and what each node needs to start, into a job folder
 * (shared/job/job_folder.h). Its document comes last, so that a folder without one is incomplete. The folder
 * of a job that waits in the queue (results/queue_folder.h) has neither secret nor meet/: its nodes run on
 * agents. */
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
#include "submit/terminal/console.h"

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

/* Writes the file under its SHA-256; one that several nodes have is written once. `shared`: a folder in which
 * jobs share their files, by hard links; NULL: there is none. Its files are synced before they get their name
 * there. */
static int put_file(const char *folder, const char *shared, const struct blob *b, struct err *e)
{
    char name[SHA256_HEX + 16], path[PATH_MAX], of_all[PATH_MAX];
    int fd, rc;

    snprintf(name, sizeof name, JOB_FOLDER_PACKAGES "/%s", b->hex);
    if (file_join(path, sizeof path, folder, name, e) < 0 ||
        (shared && file_join(of_all, sizeof of_all, shared, b->hex, e) < 0))
        return e->code;
    if (shared && link(of_all, path) == 0)
        return 0;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (fd < 0)
        return errno == EEXIST ? 0 : err_errno(e, ERR_IO, "%s", path);
    *e = (struct err){0};
    rc = b->bytes ? file_write_all(fd, b->bytes, b->len, path, e) : copy_file(fd, b, path, e);
    if (rc == 0 && shared && fdatasync(fd) < 0)
        rc = err_errno(e, ERR_IO, "%s", path);
    if (close(fd) < 0 && rc == 0)
        rc = err_errno(e, ERR_IO, "%s", path);
    if (rc == 0 && shared && link(path, of_all) < 0 && errno != EEXIST)
        console_more("%s is not shared with other jobs (%s).", path, strerror(errno));
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

static json_t *put_node(const struct submission *s, const struct job_node *n, const char *folder,
                        const char *shared, struct err *e)
{
    json_t *packages = json_object();
    json_t *o = json_pack("{s:o, s:o}", "reservation", node_reservation_json(s, n), "packages", packages);

    if (!o)
        err_set(e, ERR_NOMEM, "no memory for the job's document");
    for (int p = 0; o && p < N_PACKAGES; p++) {
        struct package_file files[PACKAGE_FILES_MAX];
        int n_files = needs(s, n, (enum package)p) ? node_package_files(files, s, n, (enum package)p) : 0;

        for (int i = 0; i < n_files; i++)
            if (put_file(folder, shared, files[i].blob, e) < 0) {
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

/* `more`: what else the document has; NULL: nothing. */
static int put_document(const struct submission *s, const char *folder, json_t *nodes, json_t *more,
                        struct err *e)
{
    json_t *o = json_pack("{s:i, s:o, s:O, s:O?}", "version", 1, "record", job_index_json(s), "nodes", nodes,
                          "queue", more);
    char *text, path[PATH_MAX];
    int rc;

    if (!more)
        json_object_del(o, "queue");
    text = o ? json_dump(o, JSON_INDENT(1)) : NULL;
    rc = text ? file_join(path, sizeof path, folder, JOB_FOLDER_DOCUMENT, e)
              : err_set(e, ERR_NOMEM, "no memory for the job's document");
    if (rc == 0)
        rc = file_write(path, text, strlen(text), 0600, e);
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

int stage_pack_files(const struct submission *s, const char *folder, const char *shared, json_t *more,
                     struct err *e)
{
    json_t *nodes = json_array();
    int rc = nodes ? 0 : err_set(e, ERR_NOMEM, "no memory for the job's document");

    for (size_t i = 0; rc == 0 && i < s->n_nodes; i++) {
        json_t *node = put_node(s, &s->nodes[i], folder, shared, e);

        rc = node ? 0 : e->code;
        json_array_append_new(nodes, node);
    }
    if (rc == 0)
        rc = put_document(s, folder, nodes, more, e);
    json_decref(nodes);
    return rc;
}

int stage_pack(struct submission *s, struct err *e)
{
    struct err ignored;

    if (make_folders(s, e) < 0)
        return err_at(e, "the job folder cannot be written");
    if (put_secret(s, e) == 0 && stage_pack_files(s, s->job_folder, NULL, NULL, e) == 0)
        return 0;
    file_remove_tree(s->job_folder, &ignored);
    return err_at(e, "the job folder cannot be written");
}
