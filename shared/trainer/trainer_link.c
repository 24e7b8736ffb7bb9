#include "shared/trainer/trainer_link.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/fd_pass.h"
#include "shared/base/flag.h"
#include "shared/base/utf8.h"
#include "shared/records/weights.h"

_Static_assert((int)TRAINER_TEXT == (int)MODEL_TENSOR_NAME && (int)TRAINER_DIMS == (int)MODEL_TENSOR_DIMS &&
                   (int)TRAINER_TENSORS_MAX == (int)MODEL_TENSORS_MAX,
               "a record has room for each tensor of a model");

static const double WAIT_S = 1;

enum { METRIC_NAME_MAX = 64 };

#define KIND(k) (UINT64_C(1) << TRAINER_##k)

/* What a record of the program may have; kinds above the last one are psgd's. */
static const struct {
    const char *name;
    uint32_t flags;
    uint64_t n_max;
    bool has_text;
} kinds[] = {
    [TRAINER_OPEN] = {"OPEN", .flags = TRAINER_IS_FUNCTION | TRAINER_GIVES_GRADIENTS,
                      .n_max = TRAINER_TENSORS_MAX},
    [TRAINER_TENSOR] = {"TENSOR", .flags = TRAINER_STATISTIC | TRAINER_FROZEN, .n_max = UINT32_MAX,
                        .has_text = true},
    [TRAINER_VALUES] = {.name = "VALUES"},
    [TRAINER_SHARD] = {"SHARD", .flags = TRAINER_HAS_LABELS, .n_max = UINT32_MAX},
    [TRAINER_READY] = {"READY", .n_max = INT32_MAX},
    [TRAINER_GRADIENT] = {"GRADIENT", .n_max = UINT32_MAX},
    [TRAINER_UPDATED] = {"UPDATED", .n_max = UINT32_MAX},
    [TRAINER_EVALUATED] = {"EVALUATED", .n_max = UINT64_MAX},
    [TRAINER_METRIC] = {"METRIC", .n_max = UINT64_MAX, .has_text = true},
    [TRAINER_SAVED] = {.name = "SAVED"},
    [TRAINER_RESTORED] = {.name = "RESTORED"},
    [TRAINER_FINISHED] = {.name = "FINISHED"},
    [TRAINER_FAILED] = {"FAILED", .flags = TRAINER_GOES_ON, .has_text = true},
    [TRAINER_STORED] = {.name = "STORED"},
};

enum { N_PROGRAM_KINDS = sizeof kinds / sizeof *kinds };

/* The answers to a turn of psgd's. */
static uint64_t answers_to(uint32_t turn)
{
    static const uint64_t answers[] = {
        [TRAINER_GO - TRAINER_ACCEPTED] = KIND(GRADIENT) | KIND(UPDATED),
        [TRAINER_UPDATE - TRAINER_ACCEPTED] = KIND(UPDATED),
        [TRAINER_EVALUATE - TRAINER_ACCEPTED] = KIND(EVALUATED),
        [TRAINER_SAVE - TRAINER_ACCEPTED] = KIND(SAVED),
        [TRAINER_RESTORE - TRAINER_ACCEPTED] = KIND(RESTORED),
        [TRAINER_STORE - TRAINER_ACCEPTED] = KIND(STORED),
    };

    assert(turn >= TRAINER_GO && turn <= TRAINER_STORE && turn != TRAINER_STOP);
    return answers[turn - TRAINER_ACCEPTED];
}

void trainer_link_open(struct trainer_link *l, const struct trainer_link_config *cfg)
{
    *l = (struct trainer_link){.cfg = *cfg, .other_fd = -1};
}

void trainer_link_watch(struct trainer_link *l, int fd)
{
    l->other_fd = fd;
}

void trainer_link_close(struct trainer_link *l)
{
    if (l->cfg.fd >= 0)
        close(l->cfg.fd);
    l->cfg.fd = -1;
}

static void close_passed(int fd)
{
    if (fd >= 0)
        close(fd);
}

static int report_end(struct trainer_link *l, struct err *e)
{
    l->has_ended = true;
    return err_set(e, ERR_TRAINER, "%s has ended, or has closed its connection to psgd", l->cfg.program);
}

static int report_breach(const struct trainer_link *l, struct err *e, const char *what)
{
    err_set(e, ERR_TRAINER, "%s has sent %s", l->cfg.program, what);
    return err_hint(
        e, "Does it use psgd_trainer.c or psgd.trainer of this psgd, and no copy of another version?");
}

static bool is_metric_name(const char *name)
{
    size_t n = strlen(name);

    return n >= 1 && n <= METRIC_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%-") == n;
}

/* Checks what all records of the program have in common. `len`: as of fd_pass_receive. */
static int check_record(const struct trainer_link *l, const struct trainer_record *r, size_t len, int fd,
                        struct err *e)
{
    const char *text = r->u.of.text;
    char what[128];
    bool needs_fd;

    if (len != sizeof *r)
        return report_breach(l, e, "a record of another size");
    if (r->version != TRAINER_VERSION) {
        snprintf(what, sizeof what, "a record of version %u, and this psgd has version %d",
                 (unsigned)r->version, TRAINER_VERSION);
        return report_breach(l, e, what);
    }
    if (r->kind >= N_PROGRAM_KINDS || !kinds[r->kind].name)
        return report_breach(l, e, "a record of an unknown kind");
    needs_fd = r->kind == TRAINER_SHARD && (r->flags & TRAINER_HAS_LABELS);
    if (r->sequence != l->n_received || (r->flags & ~kinds[r->kind].flags) || r->n > kinds[r->kind].n_max ||
        needs_fd != (fd >= 0) || (kinds[r->kind].has_text && !memchr(text, '\0', sizeof r->u.of.text))) {
        snprintf(what, sizeof what, "a malformed record %s", kinds[r->kind].name);
        return report_breach(l, e, what);
    }
    return 0;
}

static int report_failure(struct trainer_link *l, struct err *e)
{
    l->has_failed = true;
    utf8_clean(l->reason, strlen(l->reason), false);
    return err_set(e, ERR_TRAINER, "%s: %s", l->cfg.program,
                   l->reason[0] ? l->reason : "it gives up, without a reason");
}

/* Takes a FAILED. 0: its text goes on in the next record. */
static int take_reason(struct trainer_link *l, const struct trainer_record *r, struct err *e)
{
    size_t n = strlen(l->reason);

    snprintf(l->reason + n, sizeof l->reason - n, "%s", r->u.of.text);
    if ((r->flags & TRAINER_GOES_ON) && ++l->n_parts < TRAINER_PARTS)
        return 0;
    return report_failure(l, e);
}

/* Receives a packet that is there. 1: there is none. */
static int receive_record(struct trainer_link *l, struct trainer_record *r, int *fd, struct err *e)
{
    ssize_t n = fd_pass_receive(l->cfg.fd, r, sizeof *r, fd, MSG_DONTWAIT);
    int rc;

    /* Linux reports once that the other side has ended without reading all; what it has sent is still
     * there. */
    if (n < 0 && errno == ECONNRESET)
        n = fd_pass_receive(l->cfg.fd, r, sizeof *r, fd, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (n == 0 || (n < 0 && (errno == ECONNRESET || errno == EPIPE)))
        return report_end(l, e);
    if (n < 0)
        return err_errno(e, ERR_IO, "the connection to %s", l->cfg.program);
    rc = check_record(l, r, (size_t)n, *fd, e);
    if (rc < 0) {
        close_passed(*fd);
        return rc;
    }
    l->n_received++;
    return 0;
}

/* Takes a record that is there, other than a FAILED, which is an error. 1: there is none. */
static int take_record(struct trainer_link *l, struct trainer_record *r, int *fd, struct err *e)
{
    int rc;

    while ((rc = receive_record(l, r, fd, e)) == 0 && r->kind == TRAINER_FAILED)
        if (take_reason(l, r, e) < 0)
            return e->code;
    if (rc == 1 || l->n_parts == 0)
        return rc;
    if (rc == 0)
        close_passed(*fd);
    return report_failure(l, e); /* no more of the reason has come */
}

/* Waits until the socket is readable, or for something else to do, at most a second or until the deadline.
 * *second: clock_now when cfg.waiting is called next. */
static int wait_a_while(const struct trainer_link *l, double deadline, double *second, struct err *e)
{
    struct pollfd p[2] = {{.fd = l->cfg.fd, .events = POLLIN}, {.fd = l->other_fd, .events = POLLIN}};
    double now = clock_now(), until = fmin(deadline, *second);

    if (now >= deadline)
        return err_set(e, ERR_TIMEOUT, "%s has not answered", l->cfg.program);
    if (poll(p, l->other_fd < 0 ? 1 : 2, now < until ? (int)((until - now) * 1000) + 1 : 0) < 0 &&
        errno != EINTR)
        return err_errno(e, ERR_IO, "the connection to %s", l->cfg.program);
    if (l->cfg.interrupted && flag_is_up(l->cfg.interrupted))
        return err_set(e, ERR_CANCELLED, "asked to stop");
    if (p[1].revents != 0 && l->cfg.other(l->cfg.owner, e) < 0)
        return e->code;
    if (now < *second)
        return 0;
    *second = now + WAIT_S;
    return l->cfg.waiting ? l->cfg.waiting(l->cfg.owner, e) : 0;
}

/* *second: 0 in the first call of an answer. Before each record there is a wait, however short: a program
 * that sends metrics without a pause must not keep the caller from its other work. */
static int await_record(struct trainer_link *l, struct trainer_record *r, int *fd, double deadline,
                        double *second, struct err *e)
{
    int rc;

    *second = *second > 0 ? *second : clock_now() + WAIT_S;
    do
        if (wait_a_while(l, deadline, second, e) < 0)
            return e->code;
    while ((rc = take_record(l, r, fd, e)) == 1);
    return rc;
}

/* The program has ended: what it has sent before may say why. */
static int explain_end(struct trainer_link *l, struct err *e)
{
    struct trainer_record r;
    int fd, rc;

    while ((rc = take_record(l, &r, &fd, e)) == 0)
        close_passed(fd);
    l->has_ended = true;
    return rc < 0 ? rc : report_end(l, e);
}

static int send_record(struct trainer_link *l, const struct trainer_record *r, int fd, struct err *e)
{
    struct trainer_record out = *r;
    ssize_t n;

    out.version = TRAINER_VERSION;
    out.sequence = l->n_sent;
    do
        n = fd_pass_send(l->cfg.fd, &out, sizeof out, fd, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof out) {
        l->n_sent++;
        return 0;
    }
    if (errno == EPIPE || errno == ECONNRESET)
        return explain_end(l, e);
    if (errno == EAGAIN)
        return err_set(e, ERR_TRAINER, "%s does not read psgd's answers", l->cfg.program);
    return err_errno(e, ERR_IO, "the connection to %s", l->cfg.program);
}

/* In as many records as its length needs, none of which cuts a character. */
static int send_reason(struct trainer_link *l, enum trainer_kind kind, uint32_t flags, const char *why,
                       struct err *e)
{
    for (int part = 1;; part++) {
        struct trainer_record r = {.kind = kind, .flags = flags};
        size_t n = strlen(why);
        bool goes_on = n >= TRAINER_TEXT && part < TRAINER_PARTS;

        n = utf8_whole(why, n < TRAINER_TEXT ? n : TRAINER_TEXT - 1);
        memcpy(r.u.of.text, why, n);
        if (goes_on)
            r.flags |= TRAINER_GOES_ON;
        if (send_record(l, &r, -1, e) < 0)
            return e->code;
        if (!goes_on)
            return 0;
        why += n;
    }
}

/* Metrics and shards, before an answer. */

static int take_metric(const struct trainer_link *l, const struct trainer_record *r, struct err *e)
{
    char name[TRAINER_TEXT];

    memcpy(name, r->u.of.text, sizeof name);
    if (!l->cfg.metric)
        return report_breach(l, e, "a METRIC where there is no job");
    if (is_metric_name(name))
        return l->cfg.metric(l->cfg.owner, name, r->loss, e);
    utf8_clean(name, strlen(name), false);
    return err_set(e, ERR_TRAINER, "%s logs the metric '%s': a name is 1 to %d of a-z, A-Z, 0-9 and _./:@%%-",
                   l->cfg.program, name, METRIC_NAME_MAX);
}

/* Reads n labels of a file. The program may still write it, so it is not mapped. */
static int read_labels(const struct trainer_link *l, int32_t **out, int fd, size_t n, struct err *e)
{
    size_t bytes = n * sizeof **out, at = 0;
    struct stat st;
    ssize_t got = 1;

    *out = NULL;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size < bytes)
        return report_breach(l, e, "a SHARD with a descriptor that is no file of its labels");
    *out = malloc(bytes);
    if (!*out)
        return err_set(e, ERR_NOMEM, "no memory for the labels of %zu rows", n);
    while (at < bytes && (got = pread(fd, (char *)*out + at, bytes - at, (off_t)at)) > 0)
        at += (size_t)got;
    if (at == bytes)
        return 0;
    free(*out);
    *out = NULL;
    return got < 0 ? err_errno(e, ERR_IO, "the labels of %s", l->cfg.program)
                   : report_breach(l, e, "a SHARD whose labels became shorter");
}

static int send_index(struct trainer_link *l, const uint32_t *index, size_t n, struct err *e)
{
    const struct trainer_record r = {.kind = TRAINER_SHARDED, .n = n};
    size_t bytes = n * sizeof *index, at = 0;
    int fd = l->cfg.memory(l->cfg.owner, bytes > 0 ? bytes : 1), rc;
    ssize_t put = 0;

    if (fd < 0)
        return err_errno(e, ERR_NOMEM, "no memory for the numbers of %zu rows", n);
    while (at < bytes && (put = pwrite(fd, (const char *)index + at, bytes - at, (off_t)at)) > 0)
        at += (size_t)put;
    rc = at < bytes ? err_errno(e, ERR_IO, "the numbers of %zu rows", n) : send_record(l, &r, fd, e);
    close(fd);
    return rc;
}

static int take_shard(struct trainer_link *l, const struct trainer_record *r, int fd, struct err *e)
{
    struct shard_request request = {
        .n_rows = (size_t)r->n, .batch = r->n_dims ? (size_t)r->u.of.shape[0] : 0, .epoch = r->step};
    int32_t *labels = NULL;
    uint32_t *index = NULL;
    size_t n = 0;
    int rc = 0;

    if (!l->cfg.shard)
        rc = report_breach(l, e, "a SHARD where there are no rows to divide");
    else if (fd >= 0)
        rc = read_labels(l, &labels, fd, (size_t)r->n, e);
    close_passed(fd);
    if (rc < 0)
        return rc;
    request.labels = labels;
    rc = l->cfg.shard(l->cfg.owner, &request, &index, &n, e);
    free(labels);
    if (rc == ERR_TRAINER)
        rc = send_reason(l, TRAINER_REFUSED, 0, e->text, e);
    else if (rc == 0)
        rc = send_index(l, index, n, e);
    free(index);
    return rc;
}

/* One in percent, say, would be compared with --target-accuracy. */
static int check_accuracy(const struct trainer_link *l, struct trainer_record *r, struct err *e)
{
    if (!(1u << r->kind & (1u << TRAINER_GRADIENT | 1u << TRAINER_UPDATED | 1u << TRAINER_EVALUATED)))
        return 0;
    if (!isfinite(r->accuracy))
        r->accuracy = NAN;
    else if (r->accuracy < 0 || r->accuracy > 1)
        return err_set(e, ERR_TRAINER, "%s has given the accuracy %g: it is a share of the samples, 0 to 1",
                       l->cfg.program, r->accuracy);
    return 0;
}

/* A record of one of the kinds in the set `wanted`, which carry no descriptor. Shards, metrics and the end of
 * all data, where `serves`, are taken on the way. */
static int take_answer(struct trainer_link *l, struct trainer_record *r, uint64_t wanted, bool serves,
                       double deadline, struct err *e)
{
    double second = 0;
    int fd, rc;

    for (;;) {
        char what[96];

        if (await_record(l, r, &fd, deadline, &second, e) < 0)
            return e->code;
        if (wanted >> r->kind & 1)
            return check_accuracy(l, r, e);
        rc = 1;
        if (serves && r->kind == TRAINER_METRIC)
            rc = take_metric(l, r, e);
        else if (serves && r->kind == TRAINER_SHARD)
            rc = take_shard(l, r, fd, e);
        else if (serves && r->kind == TRAINER_FINISHED && !l->is_finished) {
            l->is_finished = true;
            rc = 0;
        } else
            close_passed(fd);
        if (rc < 0)
            return rc;
        if (rc == 0)
            continue;
        snprintf(what, sizeof what, "the record %s where it does not belong", kinds[r->kind].name);
        return report_breach(l, e, what);
    }
}

/* The tensors. */

static int refuse_tensor(const struct trainer_link *l, const char *name, struct err *e, const char *what)
{
    return err_set(e, ERR_TRAINER, "%s: tensor '%s' %s", l->cfg.program, name, what);
}

static int parse_tensor(const struct trainer_link *l, struct model_tensor *out,
                        const struct trainer_record *r, uint64_t *n_values, struct err *e)
{
    uint64_t n = 1;

    memcpy(out->name, r->u.of.text, sizeof out->name);
    if (r->n_dims < 0 || r->n_dims > TRAINER_DIMS)
        return refuse_tensor(l, out->name, e, "has too many dimensions");
    out->n_dims = r->n_dims;
    out->is_statistic = r->flags & TRAINER_STATISTIC;
    for (int k = 0; k < out->n_dims; k++) {
        uint64_t size = r->u.of.shape[k];

        if (size == 0)
            return refuse_tensor(l, out->name, e, "has no values: a dimension is 0");
        if (size > MODEL_PARAMS_MAX || n * size > MODEL_PARAMS_MAX)
            return refuse_tensor(l, out->name, e, "has more values than a model may have, 2^30");
        n *= size;
        out->shape[k] = (size_t)size;
    }
    out->n = (size_t)n;
    *n_values += n;
    return *n_values <= MODEL_PARAMS_MAX
               ? 0
               : refuse_tensor(l, out->name, e, "is too much: a model may have 2^30 values");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const struct trainer_link *l, const struct trainer_tensors *t, struct err *e)
{
    size_t n = t->n + t->n_frozen;
    const char **names = malloc(n * sizeof *names);
    const char *twice = NULL;

    if (!names)
        return err_set(e, ERR_NOMEM, "no memory for the names of %zu tensors", n);
    for (size_t i = 0; i < n; i++)
        names[i] = i < t->n ? t->all[i].name : t->frozen[i - t->n].name;
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 1; i < n && !twice; i++)
        twice = strcmp(names[i - 1], names[i]) == 0 ? names[i] : NULL;
    free(names);
    return twice ? refuse_tensor(l, twice, e, "comes twice: each needs a name of its own") : 0;
}

static int add_tensor(const struct trainer_link *l, struct trainer_tensors *t, const struct trainer_record *r,
                      uint64_t *n_values, struct err *e)
{
    if (!r->u.of.text[0] || !utf8_is_clean(r->u.of.text))
        return report_breach(l, e, "a tensor without a name that can be printed");
    if (!(r->flags & TRAINER_FROZEN))
        return parse_tensor(l, &t->all[t->n++], r, n_values, e);
    memcpy(t->frozen[t->n_frozen].name, r->u.of.text, sizeof t->frozen->name);
    t->frozen[t->n_frozen++].checksum = (uint32_t)r->n;
    return 0;
}

static int receive_tensors(struct trainer_link *l, struct trainer_tensors *t, size_t n, double deadline,
                           struct err *e)
{
    uint64_t n_values = 0;
    size_t n_trained = 0;

    for (size_t i = 0; i < n; i++) {
        struct trainer_record r;

        if (take_answer(l, &r, KIND(TENSOR), false, deadline, e) < 0 ||
            add_tensor(l, t, &r, &n_values, e) < 0)
            return e->code;
        n_trained += !(r.flags & (TRAINER_STATISTIC | TRAINER_FROZEN));
    }
    if (n_trained == 0)
        return err_set(e, ERR_TRAINER, "%s has no tensors to train", l->cfg.program);
    return check_names(l, t, e);
}

int trainer_link_take_tensors(struct trainer_link *l, struct trainer_tensors *out, double deadline,
                              struct err *e)
{
    struct trainer_record r;
    size_t n;

    *out = (struct trainer_tensors){0};
    if (take_answer(l, &r, KIND(OPEN), false, deadline, e) < 0)
        return e->code;
    l->opened = r.flags;
    n = (size_t)r.n;
    out->all = calloc(n + 1, sizeof *out->all);
    out->frozen = calloc(n + 1, sizeof *out->frozen);
    if (!out->all || !out->frozen)
        err_set(e, ERR_NOMEM, "no memory for the names of %zu tensors", n);
    else if (receive_tensors(l, out, n, deadline, e) == 0)
        return 0;
    trainer_tensors_clear(out);
    return e->code;
}

void trainer_tensors_clear(struct trainer_tensors *t)
{
    free(t->all);
    free(t->frozen);
    *t = (struct trainer_tensors){0};
}

static const char *sizes_text(char out[TENSOR_SHAPE_TEXT], const struct model_tensor *t)
{
    struct tensor_view v;

    weights_view(&v, t, NULL);
    return tensor_shape_text(out, &v);
}

static int compare_trained(const struct trainer_link *l, int node, const struct model_tensor *own,
                           size_t n_own, const struct model_tensor *job, size_t n_job, struct err *e)
{
    const char *program = l->cfg.program;
    char here[TENSOR_SHAPE_TEXT], there[TENSOR_SHAPE_TEXT];

    for (size_t i = 0; i < n_own && i < n_job; i++) {
        if (strcmp(own[i].name, job[i].name) != 0)
            return err_set(e, ERR_TRAINER, "tensor %zu is '%s' in %s on node %d and '%s' in the job", i + 1,
                           own[i].name, program, node, job[i].name);
        if (own[i].is_statistic != job[i].is_statistic)
            return err_set(e, ERR_TRAINER, "'%s' is %s in %s on node %d and %s in the job", own[i].name,
                           own[i].is_statistic ? "a running statistic" : "trained", program, node,
                           job[i].is_statistic ? "a running statistic" : "trained");
        if (own[i].n_dims != job[i].n_dims ||
            memcmp(own[i].shape, job[i].shape, (size_t)job[i].n_dims * sizeof job[i].shape[0]) != 0)
            return err_set(e, ERR_TRAINER, "'%s' is %s in %s on node %d and %s in the job", own[i].name,
                           sizes_text(here, &own[i]), program, node, sizes_text(there, &job[i]));
    }
    if (n_own == n_job)
        return 0;
    return err_set(e, ERR_TRAINER, "%s has %zu tensors on node %d, and %zu in the job: '%s' is %s", program,
                   n_own, node, n_job, n_own > n_job ? own[n_job].name : job[n_own].name,
                   n_own > n_job ? "new" : "missing");
}

static int compare_frozen(const struct trainer_link *l, int node, const struct trainer_tensors *own,
                          const struct model_spec *job, struct err *e)
{
    const char *program = l->cfg.program;
    size_t n_job = (size_t)job->n_frozen;

    for (size_t i = 0; i < own->n_frozen && i < n_job; i++) {
        const struct model_frozen *here = &own->frozen[i], *there = &job->frozen[i];

        if (strcmp(here->name, there->name) != 0)
            return err_set(e, ERR_TRAINER, "frozen tensor %zu is '%s' in %s on node %d and '%s' in the job",
                           i + 1, here->name, program, node, there->name);
        if (here->checksum == there->checksum)
            continue;
        return err_set(
            e, ERR_TRAINER,
            "'%s' is frozen, and in %s on node %d has other values than where the job was submitted: "
            "load it from the same file, or make it by the same seed",
            here->name, program, node);
    }
    if (own->n_frozen == n_job)
        return 0;
    return err_set(e, ERR_TRAINER, "'%s' is %s in %s on node %d and %s in the job",
                   own->n_frozen > n_job ? own->frozen[n_job].name : job->frozen[own->n_frozen].name,
                   own->n_frozen > n_job ? "frozen" : "not frozen", program, node,
                   own->n_frozen > n_job ? "not" : "frozen");
}

int trainer_link_compare(const struct trainer_link *l, int node, const struct trainer_tensors *own,
                         const struct model_spec *job, struct err *e)
{
    return compare_trained(l, node, own->all, own->n, job->tensors, (size_t)job->n_tensors, e) < 0
               ? e->code
               : compare_frozen(l, node, own, job, e);
}

void trainer_link_refuse(struct trainer_link *l, const char *why)
{
    send_reason(l, TRAINER_REFUSED, 0, why, &(struct err){0});
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + TRAINER_PAGE - 1) / TRAINER_PAGE * TRAINER_PAGE;
}

struct trainer_accepted trainer_link_lay_out(size_t n_params, size_t n_trained)
{
    uint64_t vector = whole_pages((uint64_t)n_params * sizeof(float));

    return (struct trainer_accepted){.n_nodes = 1,
                                     .n_params = n_params,
                                     .n_trained = n_trained,
                                     .grads_at = vector,
                                     .combined_at = 2 * vector,
                                     .bytes = 3 * vector};
}

int trainer_link_accept(struct trainer_link *l, const struct trainer_accepted *a, uint32_t flags,
                        int memory_fd, double deadline, struct err *e)
{
    struct trainer_record r = {.kind = TRAINER_ACCEPTED, .flags = flags, .u.accepted = *a};

    if (send_record(l, &r, memory_fd, e) < 0)
        return e->code;
    return take_answer(l, &r, KIND(VALUES), false, deadline, e);
}

int trainer_link_await_ready(struct trainer_link *l, uint64_t *n_batches, double deadline, struct err *e)
{
    struct trainer_record r;

    if (take_answer(l, &r, KIND(READY), true, deadline, e) < 0)
        return e->code;
    *n_batches = r.n;
    return 0;
}

int trainer_link_give(struct trainer_link *l, const struct trainer_record *turn, int fd, struct err *e)
{
    return send_record(l, turn, fd, e);
}

int trainer_link_take(struct trainer_link *l, enum trainer_kind turn, struct trainer_record *answer,
                      double deadline, struct err *e)
{
    return take_answer(l, answer, answers_to(turn), true, deadline, e);
}

int trainer_link_turn(struct trainer_link *l, const struct trainer_record *turn, int fd,
                      struct trainer_record *answer, double deadline, struct err *e)
{
    if (trainer_link_give(l, turn, fd, e) < 0)
        return e->code;
    return trainer_link_take(l, turn->kind, answer, deadline, e);
}

const char *trainer_link_kind_name(uint32_t kind)
{
    return kinds[kind].name;
}

int trainer_link_again(struct trainer_link *l, struct err *e)
{
    const struct trainer_record r = {.kind = TRAINER_AGAIN};

    return send_record(l, &r, -1, e);
}

void trainer_link_stop(struct trainer_link *l, uint32_t flags, const char *why)
{
    if (l->cfg.fd >= 0 && !l->has_ended)
        send_reason(l, TRAINER_STOP, flags, why, &(struct err){0});
}
