/* snapshot: writes the model of a running node, as it is between two of its steps. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/records/weights.h"
#include "submit/results/job_index.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/verbs.h"

/* A node whose steps are long answers that it has completed none. Below the time in which a download that
 * brings nothing counts as lost (submit/net/). */
enum { STEP_S = 30 };

#define MODEL_MAX ((uint64_t)4 << 30) /* if the job's record does not have its size */

struct job_node *verb_node_of_job(struct submission *s, int node, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].at.node == node)
            return &s->nodes[i];
    err_set(e, ERR_USAGE, "job %s has no node %d", s->id, node);
    return NULL;
}

static int download_model(struct submission *s, struct job_node *n, int fd, struct err *e)
{
    char from[160];

    snprintf(from, sizeof from, "/v1/jobs/%s/model?timeout_s=%d", s->id, STEP_S);
    if (node_download(s->http, n, fd, s->model_bytes ? s->model_bytes : MODEL_MAX, from, e) < 0)
        return e->code;
    while (n->call.busy && !interrupt_signal())
        http_poll(s->http, 1);
    return interrupt_check(e) < 0 ? e->code : node_answer(n, e);
}

static int read_moment(struct verb_moment *out, const char *path, const struct job_node *n, struct err *e)
{
    struct tensor_file f;
    const char *epoch, *step;
    int rc;

    if (tensor_file_open(&f, path, e) < 0)
        return err_at(e, "node(%d)", n->at.node);
    rc = weights_meta(&epoch, &f, "epoch", e) < 0 ? e->code : weights_meta(&step, &f, "step", e);
    if (rc == 0)
        *out = (struct verb_moment){strtoull(epoch, NULL, 10), strtoull(step, NULL, 10)};
    tensor_file_close(&f);
    return rc;
}

static void show_snapshot(const struct options *o, const struct submission *s, const struct job_node *n,
                          const struct verb_moment *m)
{
    if (o->json)
        stdout_json(true,
                    json_pack("{s:s, s:i, s:I, s:I, s:o}", "id", s->id, "node", n->at.node, "epoch",
                              (json_int_t)m->epoch, "step", (json_int_t)m->step, "file",
                              json_text(o->output, SIZE_MAX)),
                    NULL, NULL);
    else if (node_is_server(n))
        printf("%s: node(%d) of %s after round %llu\n", options_output(o), n->at.node, s->id, m->step);
    else
        printf("%s: node(%d) of %s after step %llu, in epoch %llu\n", options_output(o), n->at.node, s->id,
               m->step, m->epoch);
}

int verb_take_snapshot(struct verb_moment *out, struct submission *s, struct job_node *n, int fd,
                       struct err *e)
{
    char written[64];

    snprintf(written, sizeof written, "/proc/self/fd/%d", fd);
    return download_model(s, n, fd, e) < 0 ? e->code : read_moment(out, written, n, e);
}

/* Opens a file without a name. *is_named: the file system does not support that, so the file has the name
 * `temporary`. */
static int open_file(bool *is_named, const char *temporary, const char *path, struct err *e)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(temporary, '/');
    int fd;

    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - temporary) + 1 : 1, slash ? temporary : ".");
    fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    *is_named = fd < 0;
    if (fd < 0)
        fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    return fd < 0 ? err_errno(e, ERR_IO, "%s", path) : fd;
}

/* Gives the file the name `path`, and replaces another file of that name. */
static int name_file(int fd, bool is_named, const char *temporary, const char *path, struct err *e)
{
    char from[64];

    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    if ((is_named || linkat(AT_FDCWD, from, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW) == 0) &&
        rename(temporary, path) == 0)
        return 0;
    err_errno(e, ERR_IO, "%s", path);
    unlink(temporary);
    return e->code;
}

/* The file gets its name when it is complete, so a process that is killed leaves no partial file. */
static int write_file(struct submission *s, struct job_node *n, const struct options *o, struct err *e)
{
    char temporary[PATH_MAX];
    struct verb_moment m = {0};
    bool is_named;
    int fd, rc;

    if (file_temporary(temporary, sizeof temporary, o->output, e) < 0 ||
        file_check_replaceable(o->output, e) < 0)
        return e->code;
    fd = open_file(&is_named, temporary, o->output, e);
    if (fd < 0)
        return fd;
    rc = verb_take_snapshot(&m, s, n, fd, e);
    if (rc == 0)
        rc = name_file(fd, is_named, temporary, o->output, e);
    else if (is_named)
        unlink(temporary);
    close(fd);
    if (rc == 0)
        show_snapshot(o, s, n, &m);
    return rc;
}

int verb_snapshot(const struct options *o, struct err *e)
{
    struct submission s;
    struct job_node *n = NULL;
    int rc;

    if (!o->output[0])
        return err_set(e, ERR_USAGE, "snapshot needs -o FILE");
    rc = submission_init(&s, o, e);
    if (rc == 0)
        rc = job_index_load(&s, o->args.n_operands ? o->args.operands[0] : NULL, e);
    if (rc == 0)
        n = verb_node_of_job(&s, o->has_node ? o->node : 0, e);
    rc = rc < 0 ? rc : n ? write_file(&s, n, o, e) : e->code;
    submission_clear(&s);
    return rc;
}
