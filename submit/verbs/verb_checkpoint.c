/* checkpoint: has the nodes of a job folder write a checkpoint of their present step, while the job goes
 * on. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/job/job_folder.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/verbs/submitted_job.h"
#include "submit/verbs/verbs.h"

static const double WAIT_S = 60; /* most time until all nodes have written theirs */

/* The node's last checkpoint, which a new one replaces as a whole; st_nlink 0: there is none. */
static struct stat look_at_checkpoint(const struct submission *s, const struct job_node *n)
{
    char node[JOB_FOLDER_NODE_NAME], name[64], path[PATH_MAX];
    struct stat st = {0};
    struct err ignored;

    snprintf(name, sizeof name, "%s/run/checkpoint.safetensors", job_folder_node_name(node, n->at.node));
    if (file_join(path, sizeof path, s->job_folder, name, &ignored) < 0 || lstat(path, &st) < 0)
        st = (struct stat){0};
    return st;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static size_t count_written(const struct submission *s, const struct stat *before)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_nodes; i++) {
        struct stat now = look_at_checkpoint(s, &s->nodes[i]);

        n += now.st_nlink > 0 && !is_same(&now, &before[i]);
    }
    return n;
}

static int check_running(const struct submission *s, struct err *e)
{
    if (!s->job_folder[0]) {
        err_set(e, ERR_USAGE, "job %s runs on agents, and checkpoint is for a job folder", s->id);
        return err_hint(e, "--checkpoint-steps N writes checkpoints on agents as well.");
    }
    if (!settings_has_checkpoints(&s->settings)) {
        err_set(e, ERR_CONFLICT, "job %s was packed without checkpoints", s->id);
        return err_hint(e, "Pack it with --checkpoint-steps N or --checkpoint-every N; a large N is enough.");
    }
    if (s->state != JOB_RUNNING)
        return err_set(e, ERR_CONFLICT, "job %s is %s: only a running one writes a checkpoint", s->id,
                       job_state_name(s->state));
    return 0;
}

static int await(struct submission *s, const struct stat *before, struct err *e)
{
    double until = clock_now() + WAIT_S;
    size_t n;

    while ((n = count_written(s, before)) < s->n_nodes) {
        if (interrupt_check(e) < 0)
            return e->code;
        submitted_job_ask_nodes(s, SUBMITTED_ASK_S);
        submitted_job_update(s);
        if (job_state_is_terminal(s->state))
            return err_set(e, ERR_CONFLICT, "job %s is %s: %zu of its %zu nodes have written a checkpoint",
                           s->id, job_state_name(s->state), n, s->n_nodes);
        if (clock_now() > until)
            return err_set(e, ERR_TIMEOUT, "%s: %zu of %zu nodes have written a checkpoint within %g s",
                           s->id, n, s->n_nodes, WAIT_S);
        http_poll(s->http, 0.1);
    }
    return 0;
}

static int ask_nodes(struct submission *s, struct err *e)
{
    struct stat *before = calloc(s->n_nodes, sizeof *before);
    char path[PATH_MAX];
    int rc;

    if (!before)
        return err_set(e, ERR_NOMEM, "no memory for the checkpoints of %zu nodes", s->n_nodes);
    for (size_t i = 0; i < s->n_nodes; i++)
        before[i] = look_at_checkpoint(s, &s->nodes[i]);
    rc = file_join(path, sizeof path, s->job_folder, JOB_FOLDER_CHECKPOINT, e) < 0 ||
                 file_write(path, "{}\n", 3, 0600, e) < 0
             ? e->code
             : await(s, before, e);
    free(before);
    if (rc < 0)
        return rc;
    if (s->opt->json)
        stdout_json(true, json_pack("{s:s, s:i}", "id", s->id, "nodes", (int)s->n_nodes), NULL, NULL);
    else
        printf("%s: each of the %zu nodes has written a checkpoint\n", s->id, s->n_nodes);
    return 0;
}

int verb_checkpoint(const struct options *o, struct err *e)
{
    struct submission s;
    int rc = submitted_job_ask(&s, o, submitted_job_operand(o), e);

    if (rc == 0) {
        submitted_job_update(&s);
        rc = check_running(&s, e) < 0 ? e->code : ask_nodes(&s, e);
    }
    submission_clear(&s);
    return rc;
}
