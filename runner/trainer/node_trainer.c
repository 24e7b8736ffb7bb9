#include "runner/trainer/node_trainer.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/base/vector.h"
#include "runner/exchange/barrier.h"
#include "runner/exchange/stall.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/trainer/trainer_link.h"
#include "shared/trainer/trainer_shard.h"

/* In which a program may do what it does after training, and after its node has failed. Then it gets SIGTERM.
 * Peers of a failed node see its end when its process ends. */
static const double GRACE_S = 60, FAILED_GRACE_S = 1;
static const double LONG_END_S = 5; /* the job gets a warning */
static const double KILLED_S = 60;  /* SIGKILL has no effect as long as a process waits in the kernel */

/* When the program has had one turn for this many times --round-timeout, the job gets a warning: the program
 * may hang, and under some rules no other node waits for it. */
static const double LONG_TURN = 10;

/* In a turn, and in each of its seconds; without a limit, a mesh that remains readable would be polled
 * without end. */
enum { KEPT_AT_MAX = 1000 };

static const off_t STATE_MAX = (off_t)64 << 30; /* bytes; 16 for each value of the largest model */

struct training_program {
    struct node *n;
    struct trainer_link link;
    struct trainer_accepted layout;
    int memory_fd; /* until the program has it; -1: it has */
    char *memory;  /* (layout.bytes), mapped; NULL: not yet */
    float *params, *grads, *combined;
    bool has_moved;      /* params are others than in its last turn, for another reason than an exchange */
    bool has_updated;    /* in the present step */
    int n_kept_at;       /* calls of keep_events in this turn */
    double lr_factor;    /* that it has been told */
    double lr;           /* its own of its last update */
    double turn_at;      /* clock_now when it got its present turn */
    atomic_bool is_late; /* the node is to end in the midst of its turn */
    bool has_warned;     /* of its present turn, which takes long */
};

/* The program's records besides its answers. */

static int record_metric(void *owner, const char *name, double value, struct err *e)
{
    const struct training_program *p = owner;
    struct node *n = p->n;
    const struct record_metric row = {.time_s = n->started > 0 ? clock_now() - n->started : 0,
                                      .node = n->job.node,
                                      .epoch = n->epoch,
                                      .step = n->step.n_done,
                                      .metric = name,
                                      .value = value};

    return node_record(n, ARTIFACT_METRICS, &row, sizeof row, 1, e);
}

static int divide_rows(void *owner, const struct shard_request *request, uint32_t **index, size_t *n_index,
                       struct err *e)
{
    const struct training_program *p = owner;

    return trainer_shard_make(index, n_index, &p->n->set, p->n->job.node, request, e);
}

/* The sandbox forbids this process to make memory. */
static int make_memory(void *owner, size_t bytes)
{
    const struct training_program *p = owner;
    struct shm_source source = monitor_source(p->n->monitor);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return source.memory(source.owner, (bytes + page - 1) / page * page);
}

static void tell_long_turn(struct training_program *p, double now)
{
    double limit_s = LONG_TURN * p->n->set.round_timeout_s;
    char text[256];

    if (p->has_warned || now < p->turn_at + limit_s)
        return;
    p->has_warned = true;
    snprintf(text, sizeof text,
             "node %d: %.64s has computed for %g s without a call, after step %" PRIu64
             ": it hangs, or takes long",
             p->n->job.node, p->n->set.trainer, limit_s, p->n->step.n_done);
    report_warn(p->n->report, text);
}

/* The mesh is readable while the program has the turn. */
static int keep_events(void *owner, struct err *e)
{
    struct training_program *p = owner;
    struct node *n = p->n;
    char waiting[96];
    bool is_full;
    int rc = node_keep_events(n, &is_full, e);

    if (rc == ERR_TIMEOUT && stall_list_waiting(n->exchange, n->set.round_timeout_s, waiting, sizeof waiting))
        return err_set(e, ERR_TIMEOUT,
                       "node %d: %s has computed for %.0f s without a call to psgd, and %s for it",
                       n->job.node, n->set.trainer, clock_now() - p->turn_at, waiting);
    if (rc < 0)
        return rc;
    if (is_full || ++p->n_kept_at >= KEPT_AT_MAX)
        trainer_link_watch(&p->link, -1);
    return 0;
}

/* Once a second of a wait: rows appear, and the peers know that this worker's program computes. */
static int show_waiting(void *owner, struct err *e)
{
    struct training_program *p = owner;
    struct node *n = p->n;

    if (n->started == 0)
        return 0;
    if (node_is_late())
        flag_raise(&p->is_late);
    tell_long_turn(p, clock_now());
    if (stall_send_computing(n->exchange, e) < 0 ||
        barrier_send_computing(n->exchange, stall_period(n->set.round_timeout_s), e) < 0)
        return e->code;
    p->n_kept_at = 0;
    trainer_link_watch(&p->link, mesh_descriptor(n->mesh));
    if (keep_events(owner, e) < 0)
        return e->code;
    return report_is_due(n->report, clock_now()) ? node_report_progress(n, e) : 0;
}

/* Why the program has failed, after a call of the link has: the monitor knows how it has ended. */
static int explain_failure(struct training_program *p, struct err *e)
{
    struct err ignored;

    if (e->code == ERR_CANCELLED)
        fprintf(stderr, "%s had computed for %.1f s, and had not called psgd\n", p->n->set.trainer,
                clock_now() - p->turn_at);
    if (p->link.has_failed) /* it says so itself, and ends now */
        monitor_release_trainer(p->n->monitor, true, &ignored);
    else if (p->link.has_ended)
        return monitor_explain_trainer(p->n->monitor, e);
    return e->code;
}

/* `fd`: as of trainer_link_turn. */
static int pass_turn(struct training_program *p, const struct trainer_record *turn, int fd,
                     struct trainer_record *answer, struct err *e)
{
    p->turn_at = clock_now();
    p->has_warned = false;
    p->n_kept_at = 0;
    if (p->n->mesh)
        trainer_link_watch(&p->link, mesh_descriptor(p->n->mesh));
    return trainer_link_turn(&p->link, turn, fd, answer, INFINITY, e);
}

/* The start. */

static int map_memory(struct training_program *p, struct err *e)
{
    size_t bytes = (size_t)p->layout.bytes;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->memory_fd, 0);

    if (at == MAP_FAILED)
        return err_call(e, ERR_NOMEM, CALL_MAP, "%zu bytes of memory for the vectors of %s", bytes,
                        p->n->set.trainer);
    p->memory = at;
    p->params = (float *)at;
    p->grads = (float *)(void *)(p->memory + p->layout.grads_at);
    p->combined = (float *)(void *)(p->memory + p->layout.combined_at);
    net_use_params(p->n->net, p->params);
    net_use_grads(p->n->net, p->grads);
    return 0;
}

static int start_program(struct node *n, struct err *e)
{
    struct training_program *p = calloc(1, sizeof *p);
    struct trainer_link_config cfg = {.program = n->set.trainer,
                                      .interrupted = &node_interrupted,
                                      .waiting = show_waiting,
                                      .other = keep_events,
                                      .metric = record_metric,
                                      .shard = divide_rows,
                                      .memory = make_memory,
                                      .owner = p};

    if (!p)
        return err_set(e, ERR_NOMEM, "no memory for a training program");
    *p = (struct training_program){.n = n, .link.cfg.fd = -1, .memory_fd = -1, .turn_at = clock_now()};
    n->program = p;
    if (n->spec->is_reordered)
        return err_set(
            e, ERR_CONFIG,
            "--placement round_robin orders parameters by server, and a training program has them in "
            "its own order; leave it out");
    if (loader_open_blocks(&n->loader, &n->blocks, n->job.node, e) < 0)
        return e->code;
    p->layout = trainer_link_lay_out(net_n_params(n->net), net_n_trained(n->net));
    if (monitor_start_trainer(n->monitor, p->layout.bytes, &cfg.fd, &p->memory_fd, e) < 0)
        return e->code;
    trainer_link_open(&p->link, &cfg);
    return map_memory(p, e);
}

/* Are its tensors those of the job? */
static int check_layout(struct training_program *p, double deadline, struct err *e)
{
    struct trainer_tensors own;
    int rc;

    if (trainer_link_take_tensors(&p->link, &own, deadline, e) < 0)
        return e->code;
    rc = trainer_link_compare(&p->link, p->n->job.node, &own, p->n->spec, e);
    trainer_tensors_clear(&own);
    if (rc < 0)
        trainer_link_refuse(&p->link, e->text);
    return rc;
}

static int accept_program(struct training_program *p, double deadline, struct err *e)
{
    const struct node *n = p->n;
    uint32_t gradients = exchange_reads_gradient(n->exchange) ? TRAINER_TAKES_GRADIENTS : 0;
    uint32_t flags = gradients | (n->program_state ? TRAINER_IS_RESUMED : 0);
    uint64_t n_batches;

    p->layout.node = n->job.node;
    p->layout.n_nodes = n->set.node_count;
    p->layout.seed = n->set.seed;
    p->layout.n_steps = settings_steps(&n->set);
    p->layout.every = exchange_every(n->exchange);
    p->layout.n_done = n->step.n_done;
    if (trainer_link_accept(&p->link, &p->layout, flags, p->memory_fd, deadline, e) < 0 ||
        trainer_link_await_ready(&p->link, &n_batches, deadline, e) < 0)
        return e->code;
    if (n_batches > 0 && n_batches != (uint64_t)n->set.steps_per_epoch)
        fprintf(stderr, "%s has %" PRIu64 " steps in an epoch here; an epoch of the job has %d\n",
                n->set.trainer, n_batches, n->set.steps_per_epoch);
    close(p->memory_fd);
    p->memory_fd = -1;
    return 0;
}

/* A file that has no name any more, at its start. A sandboxed process can make files in its folder only. */
static int make_state_file(struct node *n, struct err *e)
{
    char name[NAME_MAX + 1];
    int fd;

    if (node_enter_folder(n, e) < 0 || file_temporary(name, sizeof name, "trainer-state", e) < 0)
        return e->code;
    fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || unlink(name) < 0) {
        err_errno(e, ERR_IO, "%s", name);
        if (fd >= 0)
            close(fd);
        return e->code;
    }
    return fd;
}

static int give_state(struct training_program *p, enum trainer_kind kind, int fd, struct err *e)
{
    const struct trainer_record turn = {.kind = kind, .step = p->n->step.n_done};
    struct trainer_record a;

    return pass_turn(p, &turn, fd, &a, e);
}

static int restore_program(struct training_program *p, struct err *e)
{
    struct node *n = p->n;
    int fd, rc = 0;

    if (!n->program_state)
        return 0;
    fd = make_state_file(n, e);
    if (fd < 0)
        return fd;
    if (file_write_all(fd, n->program_state, n->n_program_state, "the training program's state", e) < 0)
        rc = e->code;
    else if (lseek(fd, 0, SEEK_SET) < 0)
        rc = err_errno(e, ERR_IO, "the training program's state");
    else
        rc = give_state(p, TRAINER_RESTORE, fd, e);
    close(fd);
    return rc;
}

/* The program may still write to the file, so it is not mapped. */
static int read_state(void **state, size_t *size, int fd, const char *program, struct err *e)
{
    static const char what[] = "the training program's state";
    struct stat st;
    size_t at = 0;
    ssize_t got = 1;

    *state = NULL;
    *size = 0;
    if (fstat(fd, &st) < 0)
        return err_errno(e, ERR_IO, "%s", what);
    if (st.st_size == 0)
        return 0;
    if (st.st_size > STATE_MAX)
        return err_set(e, ERR_TRAINER, "%s has given %lld bytes for a checkpoint, of which %lld is the most",
                       program, (long long)st.st_size, (long long)STATE_MAX);
    *state = malloc((size_t)st.st_size);
    if (!*state)
        return err_set(e, ERR_NOMEM, "no memory for %lld bytes of %s", (long long)st.st_size, what);
    while (at < (size_t)st.st_size &&
           (got = pread(fd, (char *)*state + at, (size_t)st.st_size - at, (off_t)at)) > 0)
        at += (size_t)got;
    if (got < 0)
        err_errno(e, ERR_IO, "%s", what);
    *size = at;
    if (got >= 0)
        return 0;
    free(*state);
    *state = NULL;
    return e->code;
}

static int save_program(struct node *n, void **state, size_t *size, struct err *e)
{
    int fd = make_state_file(n, e), rc;

    *state = NULL;
    if (fd < 0)
        return fd;
    rc = give_state(n->program, TRAINER_SAVE, fd, e) < 0 ? explain_failure(n->program, e)
                                                         : read_state(state, size, fd, n->set.trainer, e);
    close(fd);
    return rc;
}

static int admit_program(struct node *n, struct err *e)
{
    struct training_program *p = n->program;
    double deadline = clock_now() + TRAINER_START_S;

    if (check_layout(p, deadline, e) == 0 && accept_program(p, deadline, e) == 0 &&
        restore_program(p, e) == 0)
        return 0;
    if (e->code == ERR_TIMEOUT)
        return err_set(
            e, ERR_TRAINER,
            "%s has not come to its first step %d s after its start: does it call psgd's open and next?",
            n->set.trainer, TRAINER_START_S);
    return explain_failure(p, e);
}

/* Steps. */

/* In other turns than those of a step no codec may change params. */
static int give_turn(struct training_program *p, enum trainer_kind kind, uint32_t flags,
                     struct trainer_record *answer, struct err *e)
{
    const struct trainer_record turn = {
        .kind = kind, .step = p->n->step.n_done, .lr = p->lr_factor, .flags = flags};

    if (pass_turn(p, &turn, -1, answer, e) < 0)
        return explain_failure(p, e);
    return kind == TRAINER_GO || kind == TRAINER_UPDATE ? exchange_end_kept(p->n->exchange, e) : 0;
}

/* The codec sets the factor: any value, at any time. */
static int take_lr_factor(struct training_program *p, const struct worker_request *request, struct err *e)
{
    p->lr_factor = request->lr_factor;
    if (isfinite(p->lr_factor))
        return 0;
    return err_set(e, ERR_CODEC, "codec %s sets the factor on the learning rate to %g", p->n->set.codec,
                   err_number(p->lr_factor));
}

/* Since the program's last turn. */
static uint32_t moved_flag(struct training_program *p)
{
    bool has_moved = exchange_take_move(p->n->exchange) || p->has_moved;

    p->has_moved = false;
    return has_moved ? TRAINER_HAS_CHANGED : 0;
}

static int compute_step(void *owner, const struct worker_request *request, struct err *e)
{
    struct training_program *p = owner;
    struct node *n = p->n;
    bool is_read = exchange_reads_gradient(n->exchange);
    uint32_t part = request->takes_part && !p->link.is_finished ? TRAINER_TAKES_PART : 0;
    uint32_t stores = request->stores ? TRAINER_READS : 0;
    struct step_result result = {.loss = NAN, .accuracy = NAN};
    float *grads = net_grads(n->net);
    struct trainer_record a;

    if (node_catch_up(n, e) < 0 || take_lr_factor(p, request, e) < 0 ||
        give_turn(p, TRAINER_GO, part | stores | moved_flag(p), &a, e) < 0)
        return e->code;
    p->has_updated = a.kind == TRAINER_UPDATED;
    p->lr = a.lr;
    if (part && !p->link.is_finished)
        result = (struct step_result){.n = (size_t)a.n, .loss = a.loss, .accuracy = a.accuracy};
    result.is_finished = p->link.is_finished;
    if (is_read && p->has_updated)
        return err_set(e, ERR_TRAINER,
                       "%s has updated without passing on its gradient, which codec %s combines or changes",
                       n->set.trainer, n->set.codec);
    if (is_read && grads != p->grads && result.n > 0)
        vector_copy(grads, p->grads, net_n_params(n->net));
    return worker_reported(&n->worker, is_read ? grads : NULL, &result, e);
}

static int update_step(void *owner, const struct worker_request *request, struct err *e)
{
    struct training_program *p = owner;
    struct node *n = p->n;
    uint32_t combined = request->gradient ? TRAINER_COMBINED : 0;
    struct trainer_record a;

    if (p->has_updated)
        return worker_updated(&n->worker, p->lr * p->lr_factor, e);
    if (request->gradient)
        vector_copy(p->combined, request->gradient, net_n_params(n->net));
    if (take_lr_factor(p, request, e) < 0 ||
        give_turn(p, TRAINER_UPDATE, combined | moved_flag(p), &a, e) < 0)
        return e->code;
    return worker_updated(&n->worker, p->lr * p->lr_factor, e);
}

static int store_params(struct node *n, struct err *e)
{
    struct trainer_record a;

    return give_turn(n->program, TRAINER_STORE, 0, &a, e);
}

static int evaluate_program(void *owner, double *loss, double *accuracy, struct err *e)
{
    struct training_program *p = owner;
    struct node *n = p->n;
    bool decides = n->set.target_accuracy > 0 || n->set.patience > 0;
    struct trainer_record a;
    int rc;

    p->has_moved = p->has_moved || n->model;
    node_swap_model(n);
    rc = give_turn(p, TRAINER_EVALUATE, moved_flag(p), &a, e);
    node_swap_model(n);
    p->has_moved = n->model;
    if (rc < 0)
        return e->code;
    *loss = a.loss;
    *accuracy = a.accuracy;
    if (a.n > 0)
        return step_check_test(&n->step, a.loss, step_is_last(&n->step), e);
    if (!decides)
        return NODE_NOT_EVALUATED;
    return err_set(e, ERR_TRAINER, "%s has not evaluated after step %" PRIu64 ", and %s needs it",
                   n->set.trainer, n->step.n_done, n->set.patience > 0 ? "--patience" : "--target-accuracy");
}

/* The end. */

static void stop_program(struct training_program *p, uint32_t flags, const char *why)
{
    struct err ignored;

    if (p->link.cfg.fd < 0)
        return;
    monitor_release_trainer(p->n->monitor, (flags & TRAINER_HAS_FAILED) != 0, &ignored);
    trainer_link_stop(&p->link, flags, why);
    trainer_link_close(&p->link);
}

static int run_program(struct node *n, struct err *e)
{
    static const struct node_work of_program = {
        .compute = compute_step, .update = update_step, .evaluate = evaluate_program};
    enum stop_reason why;

    if (node_saves_at_end(n)) /* the program's turn is to end, for the checkpoint */
        n->program->link.cfg.interrupted = &n->program->is_late;
    if (node_train_by(n, &of_program, n->program, e) < 0)
        return e->code;
    why = step_stop(&n->step).reason;
    stop_program(n->program, 0, why == STOP_NONE ? "all steps are done" : stop_what(why));
    return 0;
}

static void stop_failed(struct node *n, const struct err *why)
{
    stop_program(n->program, TRAINER_HAS_FAILED, why->text);
}

static void warn_of_long_end(const struct node *n, double left_s)
{
    char text[192];

    snprintf(text, sizeof text,
             "node %d: all steps are done, and %.64s has not ended: it has %.0f s more, then it is ended",
             n->job.node, n->set.trainer, left_s);
    report_warn(n->report, text);
}

static void warn_of_no_end(const struct node *n)
{
    char text[192];

    snprintf(text, sizeof text, "node %d: %.64s has not ended %g s after SIGKILL: does it wait for a device?",
             n->job.node, n->set.trainer, KILLED_S);
    report_warn(n->report, text);
}

/* If the job is cancelled meanwhile, this is called again, and the program gets the time of a failed one. */
static int end_program(struct node *n, bool has_failed, struct err *e)
{
    double grace_s = has_failed ? FAILED_GRACE_S : GRACE_S, waited_s = 0, began = clock_now();
    bool has_ended = false, has_warned = has_failed;

    while (waited_s < 2 * grace_s + KILLED_S) {
        if (monitor_end_trainer(n->monitor, grace_s, &has_ended, e) < 0)
            return e->code;
        if (has_ended)
            return 0;
        if (!has_failed && atomic_load(&node_interrupted))
            return err_set(e, ERR_CANCELLED, "asked to stop while %s was ending", n->set.trainer);
        waited_s = clock_now() - began;
        if (!has_warned && waited_s > LONG_END_S) {
            warn_of_long_end(n, grace_s - waited_s);
            has_warned = true;
        }
    }
    warn_of_no_end(n);
    return 0;
}

static void clear_program(struct node *n)
{
    struct training_program *p = n->program;

    trainer_link_close(&p->link);
    if (p->memory_fd >= 0)
        close(p->memory_fd);
    if (p->memory)
        munmap(p->memory, (size_t)p->layout.bytes);
    free(p);
    n->program = NULL;
}

const struct node_training node_trainer = {.open = start_program,
                                           .admit = admit_program,
                                           .run = run_program,
                                           .store = store_params,
                                           .save = save_program,
                                           .stop = stop_failed,
                                           .end = end_program,
                                           .clear = clear_program};
