/* Merges the nodes' records into records of the job. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "submit/results/collect.h"
#include "submit/results/results.h"
#include "submit/terminal/console.h"

static void merge_rows(struct collection *c, const struct artifact *a, FILE *out)
{
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct yield *y = &c->yields[i];
        struct err why;
        size_t bad;

        if (!y->bytes)
            continue;
        console_info("Restoring data (%s) from %d.", a->name, y->node->at.node);
        if (records_append(out, a, y->node->at.node, y->bytes, y->len, &bad, &why) < 0)
            collect_miss(c, y->node, "its part of the records", why.text);
        if (a == &artifacts[ARTIFACT_COMM] && y->len > 0) {
            json_decref(y->node->traffic);
            y->node->traffic = records_peers(y->bytes, y->len);
        }
        if (bad > 0)
            console_info("node(%d): left out %zu malformed line%s of %s.", y->node->at.node, bad,
                         bad == 1 ? "" : "s", a->name);
    }
}

/* A fetch into another folder than the job's has only the last attempt. */
static void say_missing(const struct artifact *a, const char *path, const json_t *from)
{
    if (a->flags & NEEDED)
        console_info("%s has no rows before step %" JSON_INTEGER_FORMAT ": %s, with those of the attempt "
                     "before, is missing.",
                     a->name, json_integer_value(json_object_get(from, "step")), path);
}

/* Of earlier attempts of the job: up to the checkpoint from which this one went on. */
static int write_earlier_rows(FILE *out, const struct submission *s, const struct artifact *a, struct err *e)
{
    const json_t *from = json_object_get(s->facts, "continues");
    char folder[PATH_MAX], path[PATH_MAX], *text;
    size_t len;
    int rc;

    if (!from)
        return 0;
    if (results_of_attempt(folder, s, (int)json_integer_value(json_object_get(from, "attempt")), e) < 0 ||
        file_join(path, sizeof path, folder, a->path, e) < 0)
        return e->code;
    if (file_read(&text, &len, path, a->max, e) < 0) {
        if (e->code != ERR_NOT_FOUND)
            return e->code;
        say_missing(a, path, from);
        return 0;
    }
    rc = records_append_until(out, a, text, len, (uint64_t)json_integer_value(json_object_get(from, "step")),
                              (uint64_t)json_integer_value(json_object_get(from, "round")), e);
    free(text);
    return rc < 0 ? err_at(e, "%s", path) : 0;
}

static bool some_node_has_it(const struct collection *c)
{
    for (size_t i = 0; i < c->s->n_nodes; i++)
        if (c->yields[i].len > 0)
            return true;
    return false;
}

static int write_records(struct collection *c, const struct artifact *a, int fd, const char *path,
                         struct err *e)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *out = copy < 0 ? NULL : fdopen(copy, "w");
    bool is_whole;

    if (!out)
        return err_errno(e, ERR_IO, "%s", path);
    records_header(out, a);
    if (write_earlier_rows(out, c->s, a, e) < 0) {
        fclose(out);
        return e->code;
    }
    merge_rows(c, a, out);
    is_whole = fflush(out) == 0 && !ferror(out);
    return fclose(out) == 0 && is_whole ? 0 : err_errno(e, ERR_IO, "%s", path);
}

int collect_records(struct collection *c, const struct artifact *a, struct err *e)
{
    char path[PATH_MAX];
    int fd;

    if (!(a->flags & NEEDED) && !some_node_has_it(c))
        return 0; /* written only if a node has it */
    if (file_join(path, sizeof path, c->s->folder, a->path, e) < 0 ||
        results_create(c->s, a->path, &fd, e) < 0)
        return e->code;
    if (write_records(c, a, fd, path, e) < 0) {
        results_drop(c->s, a->path, fd);
        return e->code;
    }
    return results_seal(c->s, a->path, fd, e);
}
