#include "submit/stages/folder_attempts.h"

#include <unistd.h>

#include "shared/base/json.h"
#include "submit/job/outcome.h"
#include "submit/results/results.h"
#include "submit/results/results_lock.h"
#include "submit/stages/retry.h"
#include "submit/stages/stages.h"

/* The number of the latest attempt of which a node has written anything. */
static int latest_attempt(const struct submission *s)
{
    int latest = 1;

    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].folder.attempt > latest)
            latest = s->nodes[i].folder.attempt;
    return latest;
}

/* Reads the nodes' states in that attempt; 0: the latest one. */
static int choose_attempt(struct submission *s, int attempt, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct job_node *n = &s->nodes[i];

        n->folder.only_attempt = attempt;
        n->is_ended = n->is_ready = n->has_started = false;
        if (node_get(s->http, n, REPLY_MAX, e, "/v1/jobs/%s", s->id) < 0 || node_take_view(n, e) < 0)
            return e->code;
    }
    s->state = JOB_PENDING;
    s->cause = -1;
    outcome_update(s);
    return 0;
}

/* Notes from where the attempt went on, as start_from.c does for one on agents. */
static void note_resume(struct submission *s, int attempt)
{
    const struct node_resume *from = &s->nodes[0].folder.resume;

    json_object_del(s->facts, "continues");
    if (!from->is_set)
        return;
    json_object_set_new(s->facts, "start",
                        json_pack("{s:s, s:o, s:s, s:I}", "from", "checkpoint", "folder",
                                  json_text(s->job_folder, SIZE_MAX), "job", s->id, "epoch",
                                  (json_int_t)from->epoch));
    json_object_set_new(s->facts, "continues",
                        json_pack("{s:i, s:I, s:I}", "attempt", attempt - 1, "step", (json_int_t)from->step,
                                  "round", (json_int_t)from->round));
}

static void note_attempt(struct submission *s, json_t *attempts)
{
    const struct job_node *n = s->cause >= 0 ? &s->nodes[s->cause] : &s->nodes[0];

    json_array_append_new(
        attempts, json_pack("{s:i, s:s, s:i, s:s, s:s, s:o, s:s, s:o}", "attempt", s->attempt, "state",
                            job_state_name(s->state), "node", n->at.node, "address", n->at.address, "reason",
                            n->view.reason, "message", json_text(n->view.message, SIZE_MAX), "ended_at",
                            n->view.finished_at, "folder", json_sprintf(RESULTS_ATTEMPTS "/%d", s->attempt)));
}

/* Collects the attempt and moves its results aside, unless that was done before. */
static int collect_attempt(struct submission *s, int attempt, json_t *attempts, struct err *e)
{
    char folder[PATH_MAX];

    s->attempt = attempt;
    if (results_of_attempt(folder, s, attempt, e) < 0 || choose_attempt(s, attempt, e) < 0)
        return e->code;
    note_resume(s, attempt);
    note_attempt(s, attempts);
    if (access(folder, F_OK) == 0)
        return 0;
    if (results_make_parts(s, e) < 0 || stage_collect(s, e) < 0)
        return e->code;
    s->attempt = attempt + 1;
    return retry_set_aside(s, e);
}

int folder_attempts_collect(struct submission *s, struct err *e)
{
    const int latest = s->job_folder[0] ? latest_attempt(s) : 1;
    json_t *attempts;
    int rc = 0;

    if (results_lock(s, e) < 0)
        return e->code;
    if (latest == 1)
        return 0;
    attempts = json_array();
    for (int k = 1; k < latest && rc == 0; k++)
        rc = collect_attempt(s, k, attempts, e);
    s->attempt = latest;
    if (rc == 0)
        rc = choose_attempt(s, 0, e) < 0 || results_make_parts(s, e) < 0 ? e->code : 0;
    note_resume(s, latest);
    json_object_set_new(s->facts, "attempts", attempts);
    return rc;
}
