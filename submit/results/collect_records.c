/* Merges the nodes' records into records of the job. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/file.h"
#include "submit/results/collect.h"
#include "submit/results/results.h"
#include "submit/stages/console.h"

static int write_classic(struct collection *c, enum record_kind kind, const struct yield *y, struct err *e)
{
    const struct settings *set = &c->s->settings;
    char name[160];
    char *text = NULL;
    size_t size = 0;
    FILE *f;
    int rc;

    if (strcmp(c->s->csv_style, "classic") != 0 || kind > RECORD_EVAL || node_is_server(y->node))
        return 0;
    f = open_memstream(&text, &size);
    if (!f)
        return err_set(e, ERR_NOMEM, "no memory");
    rc = records_classic(f, kind, y->bytes, y->len);
    if (fclose(f) != 0 || rc < 0) {
        free(text);
        return err_set(e, ERR_NOMEM, "no memory");
    }
    records_classic_name(name, sizeof name, kind, set->node_count, set->redundancy, y->node->at.node,
                         set->codec, c->s->n_dense);
    console_info("Restoring data (%s) from %d.", name, y->node->at.node);
    rc = results_write(c->s, name, text, size, e);
    free(text);
    return rc;
}

static int merge_rows(struct collection *c, enum record_kind kind, FILE *out, struct err *e)
{
    for (size_t i = 0; i < c->s->n_nodes; i++) {
        const struct yield *y = &c->yields[i];
        struct err why;
        size_t bad;

        if (!y->bytes)
            continue;
        console_info("Restoring data (%s.csv) from %d.", record_names[kind], y->node->at.node);
        if (records_append(out, kind, y->node->at.node, y->bytes, y->len, &bad, &why) < 0)
            collect_miss(c, y->node, "its part of the records", why.text);
        else if (write_classic(c, kind, y, e) < 0)
            return e->code;
        if (kind == RECORD_COMM && y->len > 0) {
            json_decref(y->node->traffic);
            y->node->traffic = records_peers(y->bytes, y->len);
        }
        if (bad > 0)
            console_info("node(%d): left out %zu malformed line%s of %s.csv.", y->node->at.node, bad,
                         bad == 1 ? "" : "s", record_names[kind]);
    }
    return 0;
}

static bool some_node_has_it(const struct collection *c)
{
    for (size_t i = 0; i < c->s->n_nodes; i++)
        if (c->yields[i].len > 0)
            return true;
    return false;
}

int collect_records(struct collection *c, const struct artifact *a, struct err *e)
{
    enum record_kind kind = a->kind;
    char name[32], path[PATH_MAX];
    bool is_whole;
    FILE *out;
    int fd, copy;

    if (!(a->flags & NEEDED) && !some_node_has_it(c))
        return 0; /* written only if a node has it */
    snprintf(name, sizeof name, "records/%s", a->name);
    if (file_join(path, sizeof path, c->s->folder, name, e) < 0 || results_create(c->s, name, &fd, e) < 0)
        return e->code;
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    out = copy < 0 ? NULL : fdopen(copy, "w");
    if (!out) {
        err_errno(e, ERR_IO, "%s", path);
        close(fd);
        return e->code;
    }
    records_header(out, kind);
    if (merge_rows(c, kind, out, e) < 0) {
        fclose(out);
        close(fd);
        return e->code;
    }
    is_whole = fflush(out) == 0 && !ferror(out);
    if (fclose(out) != 0 || !is_whole) {
        err_errno(e, ERR_IO, "%s", path);
        close(fd);
        return e->code;
    }
    return results_seal(c->s, name, fd, e);
}
