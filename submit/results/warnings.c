#include "submit/results/warnings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shared/job/reason.h"
#include "shared/records/record.h"

enum {
    NAMED_MAX = 8,
    LIST = 16 * (NAMED_MAX + 2)
}; /* nodes named in a warning, and the length of their list */

static const char *weights_of(const struct job_node *n)
{
    return node_is_server(n) ? "" : n->view.progress.params_sha256;
}

static bool has_equal_weights(const struct job_node *a, const struct job_node *b)
{
    return strcmp(weights_of(a), weights_of(b)) == 0;
}

/* The first node of the largest group with equal weights; NULL: no node has reported any. */
static const struct job_node *find_most_common(const struct submission *s)
{
    const struct job_node *best = NULL;
    size_t n_best = 0;

    for (size_t i = 0; i + n_best < s->n_nodes; i++) { /* those left may be a larger group */
        size_t n = 0;

        for (size_t k = i; weights_of(&s->nodes[i])[0] && k < s->n_nodes; k++)
            n += has_equal_weights(&s->nodes[i], &s->nodes[k]);
        if (n > n_best) {
            n_best = n;
            best = &s->nodes[i];
        }
    }
    return best;
}

/* out: "1, 3 and 12 more", the nodes whose weights are equal (`equal`), or not equal, to the weights of
 * `other`. Returns their number. */
static size_t list_nodes(char out[LIST], const struct submission *s, const struct job_node *other, bool equal)
{
    size_t n = 0, at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *k = &s->nodes[i];

        if (weights_of(k)[0] && has_equal_weights(k, other) == equal && n++ < NAMED_MAX)
            at += (size_t)snprintf(out + at, LIST - at, "%s%d", n > 1 ? ", " : "", k->at.node);
    }
    if (n > NAMED_MAX)
        snprintf(out + at, LIST - at, " and %zu more", n - NAMED_MAX);
    return n;
}

/* Does the rule promise equal workers? A job of an earlier version has no such fact, so no promise. */
static bool promises_equal(const struct submission *s)
{
    return s->settings.sync == SYNC_SSGD && !s->settings.executor &&
           json_is_true(json_object_get(json_object_get(s->facts, "codec"), "ends_equal"));
}

static bool has_combined_nothing(const struct submission *s)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].view.progress.combined_nothing)
            return true;
    return false;
}

/* Of a simulation; in a job on agents worker 0 logs this warning. */
static json_t *combined_nothing(const struct submission *s)
{
    if (!has_combined_nothing(s))
        return NULL;
    return json_sprintf(
        "No exchange had a contribution with a weight, so nothing was combined: contribute() of codec "
        "%s returned 0 each time, on every worker.",
        s->settings.codec);
}

/* Workers of a synchronous job that end with different weights, although the rule does not declare
 * CODEC_OWN_RESULT (codecs/codec.h). The compared SHA-256 are those that workers report at their end, of the
 * weights without running statistics; of a rule with a model of its own, such as easgd's center, of that
 * model. Workers that did not end by themselves, or whose agents are too old to report it, do not count. If
 * nothing was combined, combined_nothing() warns instead. */
static json_t *workers_differ(const struct submission *s)
{
    const struct job_node *common = promises_equal(s) && !has_combined_nothing(s) ? find_most_common(s)
                                                                                  : NULL;
    char others[LIST], equal[LIST];
    size_t n_others, n_equal;

    if (!common)
        return NULL;
    n_others = list_nodes(others, s, common, false);
    n_equal = list_nodes(equal, s, common, true);
    if (n_others == 0)
        return NULL;
    return json_sprintf(
        "The workers end different: the weights of node%s %s differ from those of node%s %s, and "
        "codec %s does not declare that they may (CODEC_OWN_RESULT). `job_submit codecs test` "
        "checks it; codecs/README.md says what makes workers differ.%s",
        n_others > 1 ? "s" : "", others, n_equal > 1 ? "s" : "", equal, s->settings.codec,
        s->settings.allreduce == COLLECTIVE_MPI
            ? " Or MPI has given workers sums that differ in their last bits, which it may: the same job "
              "without --allreduce mpi shows whether the codec is the reason."
            : "");
}

/* The cause is one of several nodes that have reported no end. */
static json_t *several_have_vanished(const struct submission *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_nodes; i++)
        n += s->nodes[i].folder.has_vanished;
    if (n < 2 || s->cause < 0 || !s->nodes[s->cause].folder.has_vanished)
        return NULL;
    return json_sprintf(
        "The processes of %zu nodes were killed, and which of them was the first is not known. "
        "A launcher that kills the others when one has ended, as MPICH's mpirun, names that "
        "one in its own output.",
        n);
}

/* Nodes that reported another SHA-256 than that of the fetched model. */
static json_t *sums_are_false(const struct submission *s)
{
    char nodes[LIST];
    size_t n = 0, at = 0;

    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].has_false_sum && n++ < NAMED_MAX)
            at += (size_t)snprintf(nodes + at, LIST - at, "%s%d", n > 1 ? ", " : "", s->nodes[i].at.node);
    if (n == 0)
        return NULL;
    if (n > NAMED_MAX)
        snprintf(nodes + at, LIST - at, " and %zu more", n - NAMED_MAX);
    return json_sprintf(
        "Node%s %s reported another SHA-256 of the weights than that of the final model that was "
        "fetched: the codec or the agent reports a wrong one. run.json has the SHA-256 of the model.",
        n > 1 ? "s" : "", nodes);
}

/* A rule that needs a message of every worker, or a common step, fails in asgd for one of these reasons. */
static bool may_be_asynchrony(const char *reason)
{
    static const char *const these[] = {REASON_CODEC_FAILED, REASON_NUMERIC_DIVERGENCE, REASON_ROUND_TIMEOUT};

    for (size_t i = 0; i < sizeof these / sizeof *these; i++)
        if (strcmp(reason, these[i]) == 0)
            return true;
    return false;
}

/* An asynchronous job that failed as a rule does that should have declared CODEC_NO_ASGD. */
static json_t *asgd_failed(const struct submission *s)
{
    bool has_ssgd = json_is_true(json_object_get(json_object_get(s->facts, "codec"), "has_ssgd"));

    if (s->state != JOB_FAILED || s->cause < 0 || s->settings.sync != SYNC_ASGD || !has_ssgd ||
        !may_be_asynchrony(s->nodes[s->cause].view.reason))
        return NULL;
    return json_sprintf(
        "The job was asynchronous. Does codec %s work in ssgd? A rule that needs a message of every "
        "worker, or a step common to all, declares .limits = CODEC_NO_ASGD, and such jobs are "
        "refused.",
        s->settings.codec);
}

/* Losses that do not change may be a number that the program makes up. */
static bool has_losses(const struct job_node *n)
{
    bool has_changed = false;

    for (size_t k = 0; k < n->n_first_losses; k++) {
        if (!isfinite(n->first_losses[k]) || n->first_losses[k] == RECORD_MISSING)
            return false;
        has_changed |= n->first_losses[k] != n->first_losses[0];
    }
    return has_changed;
}

static bool has_equal_losses(const struct job_node *a, const struct job_node *b)
{
    return a->n_first_losses == b->n_first_losses &&
           memcmp(a->first_losses, b->first_losses, a->n_first_losses * sizeof *a->first_losses) == 0;
}

/* Workers whose training programs have taken the same batches: each reads all of the data. */
static json_t *batches_are_equal(const struct submission *s)
{
    const struct job_node *first = NULL;
    char nodes[LIST];
    size_t n = 0, at = 0;

    if (!s->settings.trainer[0])
        return NULL;
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *k = &s->nodes[i];

        if (node_is_server(k) || !has_losses(k))
            continue;
        first = first ? first : k;
        if (has_equal_losses(k, first) && n++ < NAMED_MAX)
            at += (size_t)snprintf(nodes + at, LIST - at, "%s%d", n > 1 ? ", " : "", k->at.node);
    }
    if (n < 2)
        return NULL;
    if (n > NAMED_MAX)
        snprintf(nodes + at, LIST - at, " and %zu more", n - NAMED_MAX);
    return json_sprintf(
        "Workers %s had equal losses in each of the first %zu recorded steps: they compute the same batches, "
        "and one of them would do. psgd.trainer.batches(), shard(), or psgd_shard() in C, give each worker "
        "its own part of the data.",
        nodes, first->n_first_losses);
}

json_t *warnings_json(const struct submission *s)
{
    static json_t *(*const checks[])(const struct submission *) = {combined_nothing, workers_differ,
                                                                   sums_are_false,   several_have_vanished,
                                                                   asgd_failed,      batches_are_equal};
    const json_t *of_data = json_object_get(json_object_get(s->facts, "data"), "warnings");
    json_t *all = json_is_array(of_data) ? json_copy((json_t *)(uintptr_t)of_data) : json_array(), *one;

    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if ((one = checks[i](s)) != NULL)
            json_array_append_new(all, one);
    return all;
}
