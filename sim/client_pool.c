#include "sim/client_pool.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/utf8.h"
#include "shared/trainer/trainer_command.h"
#include "shared/trainer/trainer_link.h"
#include "sim/client_rows.h"
#include "sim/sim.h"

enum {
    PROCESSES_MOST = 1024,
    METRICS_MOST = 1 << 20,
    LINE_BYTES = 256,
    OUTPUT_BYTES = 8192,
    TURN_BYTES = 96,
    NOBODY = -1
};

/* For a process's end. */
static const double END_S = 10, GRACE_S = 2;

/* When the program has had one turn for so long, or has started for so long, a line says so: it may hang. The
 * next line is of a time twice as long, so that a function that takes long by its nature causes few. */
static const double LONG_TURN_S = 15;

enum slot_state { IS_IDLE, IS_QUEUED, IS_COMPUTING, IS_COMPUTED };

struct client_slot { /* of a worker */
    enum slot_state state;
    struct client_call call;
    int next;    /* in the queue of its process; NOBODY: none */
    float *kept; /* (n_params), IS_COMPUTED: the result */
    struct client_answer answer;
    size_t n_metrics_room;
};

struct client_process {
    struct client_pool *pool;
    int number;
    struct child child;
    struct trainer_link link;
    int output;   /* the file of its standard output and error */
    char *memory; /* of the vectors, mapped; NULL: not yet */
    float *params, *grads;
    uint32_t *rows; /* (n_rows_room), mapped: those of the present step */
    size_t n_rows_room;
    int first, last;         /* of the queue */
    struct client_slot *now; /* the worker whose step or evaluation is under way; NULL: none is */
    enum trainer_kind turn;  /* the latest one; 0: it is still at its start */
    double turn_at;          /* clock_now when it got that, or was started */
    bool has_failed;
    struct err why;
};

struct client_pool {
    struct client_pool_config cfg;
    struct trainer_main main;
    char program[PATH_MAX]; /* the folder of the unpacked package */
    struct trainer_accepted layout;
    bool gives_gradients;
    int n;
    struct client_process *processes; /* (n) */
    struct client_slot *slots;        /* (node_count), and one for measurements and evaluations */
    struct client_rows rows;
    bool has_rows;
    double long_s; /* time of a turn after which a line says so */
};

bool client_pool_gives_gradients(const struct client_pool *p)
{
    return p->gives_gradients;
}

static struct client_slot *spare_slot(struct client_pool *p)
{
    return &p->slots[p->cfg.set->node_count];
}

static struct client_process *process_of(struct client_pool *p, int node)
{
    return &p->processes[node % p->n];
}

/* Why a process has failed. */

static void log_name(char *out, size_t size, const struct client_process *q)
{
    snprintf(out, size, "logs/trainer-%d.log", q->number);
}

/* Copies the last line of the output that is not empty; "": there is none. */
static void read_last_line(char line[LINE_BYTES], const struct client_process *q)
{
    char text[OUTPUT_BYTES + 1];
    off_t len = lseek(q->output, 0, SEEK_END);
    ssize_t n = pread(q->output, text, OUTPUT_BYTES, len > OUTPUT_BYTES ? len - OUTPUT_BYTES : 0);
    size_t end = n > 0 ? (size_t)n : 0, begin;

    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == ' '))
        end--;
    for (begin = end; begin > 0 && text[begin - 1] != '\n';)
        begin--;
    snprintf(line, LINE_BYTES, "%.*s", (int)(end - begin < LINE_BYTES ? end - begin : LINE_BYTES - 1),
             text + begin);
    utf8_clean(line, strlen(line), false);
}

/* The process has closed its socket: it ends now, or has ended. */
static int explain_end(struct client_process *q, struct err *e)
{
    struct pollfd p = {.fd = q->child.fd, .events = POLLIN};
    const char *program = q->pool->main.file;
    char line[LINE_BYTES];
    int status;

    poll(&p, 1, (int)(GRACE_S * 1e3));
    status = child_end(&q->child, GRACE_S);
    q->child.pid = 0;
    read_last_line(line, q);
    if (WIFSIGNALED(status))
        return err_set(e, ERR_TRAINER, "%s was killed by signal %d (%s)%s%s", program, WTERMSIG(status),
                       strsignal(WTERMSIG(status)), line[0] ? "; its last line: " : "", line);
    return err_set(e, ERR_TRAINER, "%s ended with exit status %d%s%s", program, WEXITSTATUS(status),
                   line[0] ? ": " : "", line);
}

static void describe_turn(char out[TURN_BYTES], const struct client_process *q)
{
    const struct client_call *c = &q->now->call;
    unsigned long long step = c->step;

    if (q->turn == TRAINER_EVALUATE)
        snprintf(out, TURN_BYTES, "evaluation after step %llu", step);
    else if (c->node == TRAINER_NO_NODE)
        snprintf(out, TURN_BYTES, "measurement of a step");
    else
        snprintf(out, TURN_BYTES, "step %llu of worker %d", step + 1, c->node);
}

/* Completes the reason of a failure, and keeps it for the other workers of the process. */
static int keep_failure(struct client_process *q, struct err *e)
{
    char turn[TURN_BYTES] = "", log[48];

    if (e->code == ERR_CANCELLED)
        return e->code;
    if (q->link.has_ended && !q->link.has_failed)
        explain_end(q, e);
    if (q->now)
        describe_turn(turn, q);
    log_name(log, sizeof log, q);
    err_set(&q->why, e->code, "%s%s%.700s (its output is in %s)", turn, turn[0] ? ": " : "", e->text, log);
    snprintf(q->why.hint, sizeof q->why.hint, "%s", e->hint);
    q->has_failed = true;
    *e = q->why;
    return e->code;
}

/* What the link asks for. */

static void tell_long_turn(const struct client_process *q)
{
    struct client_pool *p = q->pool;
    const char *program = p->main.file;
    double taken_s = clock_now() - q->turn_at;
    char turn[TURN_BYTES], log[48];

    if (taken_s < p->long_s)
        return;
    p->long_s = 2 * taken_s;
    log_name(log, sizeof log, q);
    if (!q->turn) {
        fprintf(stderr,
                "%s has not come to its first step in %.0f s, and has at most %.0f s more (its output is in "
                "%s; Ctrl-C ends the simulation).\n",
                program, taken_s, fmax(TRAINER_START_S - taken_s, 0), log);
        return;
    }
    describe_turn(turn, q);
    fprintf(stderr,
            "%s: %s has computed for %.0f s, and hangs or takes long (its output is in %s; Ctrl-C ends the "
            "simulation).\n",
            turn, program, taken_s, log);
}

/* About once a second of a wait. A process that the program has started may still have its socket. */
static int check_alive(void *owner, struct err *e)
{
    struct client_process *q = owner;
    struct pollfd p = {.fd = q->child.fd, .events = POLLIN};

    if (poll(&p, 1, 0) <= 0) {
        tell_long_turn(q);
        return 0;
    }
    q->link.has_ended = true;
    return err_set(e, ERR_TRAINER, "%s has ended", q->pool->main.file);
}

static int keep_metric(void *owner, const char *name, double value, struct err *e)
{
    const struct client_process *q = owner;
    struct client_slot *s = q->now;
    struct client_answer *a;

    if (!s)
        return 0; /* before the first step */
    a = &s->answer;
    if (a->n_metrics == METRICS_MOST)
        return err_set(e, ERR_TRAINER, "%s logs more than %d metrics in a step", q->pool->main.file,
                       METRICS_MOST);
    if (a->n_metrics == s->n_metrics_room) {
        size_t room = s->n_metrics_room > 0 ? 2 * s->n_metrics_room : 8;
        struct workload_metric *more = realloc(a->metrics, room * sizeof *more);

        if (!more)
            return err_set(e, ERR_NOMEM, "no memory for %zu metrics", room);
        a->metrics = more;
        s->n_metrics_room = room;
    }
    snprintf(a->metrics[a->n_metrics].name, TRAINER_TEXT, "%s", name);
    a->metrics[a->n_metrics++].value = value;
    return 0;
}

static int make_memory(size_t bytes)
{
    struct err ignored;
    int fd = file_make_in_memory("", 0, &ignored);

    if (fd >= 0 &&
        (ftruncate(fd, (off_t)bytes) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void unmap_rows(struct client_process *q)
{
    if (q->rows)
        munmap(q->rows, q->n_rows_room * sizeof *q->rows);
    q->rows = NULL;
}

/* The file of the rows, which is also mapped here. */
static int make_rows(void *owner, size_t bytes)
{
    struct client_process *q = owner;
    int fd = make_memory(bytes);
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    unmap_rows(q);
    q->rows = at;
    q->n_rows_room = bytes / sizeof *q->rows;
    return fd;
}

/* The first process says which rows there are; the others must say the same number. */
static int divide_rows(void *owner, const struct shard_request *request, uint32_t **index, size_t *n,
                       struct err *e)
{
    const struct client_process *q = owner;
    struct client_pool *p = q->pool;

    if (!p->has_rows &&
        client_rows_init(&p->rows, p->cfg.set, p->cfg.blocks, p->gives_gradients, request, e) < 0)
        return e->code;
    p->has_rows = true;
    if (p->rows.n_rows != request->n_rows)
        return err_set(e, ERR_TRAINER,
                       "client() has %zu rows in one process and %zu in another: the program is started "
                       "several times, and must read the same data each time",
                       p->rows.n_rows, request->n_rows);
    *n = p->rows.most;
    *index = calloc(*n, sizeof **index);
    return *index ? 0 : err_set(e, ERR_NOMEM, "no memory for the numbers of %zu rows", *n);
}

/* Turns. */

static int await_answer(struct client_process *q, enum trainer_kind turn, struct client_slot *s,
                        struct err *e)
{
    uint32_t wanted = turn == TRAINER_EVALUATE   ? TRAINER_EVALUATED
                      : q->pool->gives_gradients ? TRAINER_GRADIENT
                                                 : TRAINER_UPDATED;
    struct trainer_record a;

    if (trainer_link_take(&q->link, turn, &a, INFINITY, e) < 0)
        return keep_failure(q, e);
    if (a.kind != wanted) {
        err_set(e, ERR_TRAINER, "%s has sent the record %s where %s is due", q->pool->main.file,
                trainer_link_kind_name(a.kind), trainer_link_kind_name(wanted));
        return keep_failure(q, e);
    }
    s->answer.n = (size_t)a.n;
    s->answer.loss = a.loss;
    s->answer.accuracy = a.accuracy;
    s->answer.lr = a.lr;
    return 0;
}

static int give_turn(struct client_process *q, struct client_slot *s, enum trainer_kind kind, struct err *e)
{
    const struct client_pool *p = q->pool;
    const struct client_call *c = &s->call;
    struct trainer_record r = {.kind = kind, .step = c->step, .flags = TRAINER_HAS_CHANGED};

    if (q->has_failed) {
        *e = q->why;
        return e->code;
    }
    memcpy(q->params, c->params, p->layout.n_params * sizeof *q->params);
    s->answer.n_metrics = 0;
    if (kind == TRAINER_GO) {
        r.flags |= TRAINER_TAKES_PART | TRAINER_READS;
        r.lr = p->gives_gradients ? 1 : c->lr_factor;
        r.n = q->rows ? client_rows_of(&q->pool->rows, c->block, c->step, q->rows) : 0;
        r.u.go.node = c->node;
    }
    q->now = s;
    q->turn = kind;
    q->turn_at = clock_now();
    s->state = IS_COMPUTING;
    return trainer_link_give(&q->link, &r, -1, e) < 0 ? keep_failure(q, e) : 0;
}

static const float *result_of(const struct client_process *q)
{
    return q->pool->gives_gradients ? q->grads : q->params;
}

/* Waits for the call that is under way, and keeps its result. */
static int clear_process(struct client_process *q, struct err *e)
{
    size_t bytes = q->pool->layout.n_params * sizeof(float);
    struct client_slot *s = q->now;

    if (q->has_failed) {
        *e = q->why;
        return e->code;
    }
    if (!s)
        return 0;
    s->kept = malloc(bytes);
    if (!s->kept)
        return err_set(e, ERR_NOMEM, "no memory for the result of worker %d", s->call.node);
    if (await_answer(q, TRAINER_GO, s, e) < 0)
        return e->code;
    memcpy(s->kept, result_of(q), bytes);
    s->state = IS_COMPUTED;
    q->now = NULL;
    return 0;
}

static void enqueue_call(struct client_process *q, struct client_slot *s)
{
    struct client_slot *slots = q->pool->slots;
    int node = s->call.node;

    s->state = IS_QUEUED;
    s->next = NOBODY;
    if (q->first == NOBODY)
        q->first = node;
    else
        slots[q->last].next = node;
    q->last = node;
}

static void remove_call(struct client_process *q, int node)
{
    struct client_slot *slots = q->pool->slots;
    int before = NOBODY;

    for (int at = q->first; at != node; at = slots[at].next)
        before = at;
    if (before == NOBODY)
        q->first = slots[node].next;
    else
        slots[before].next = slots[node].next;
    if (q->last == node)
        q->last = before;
}

static int start_next(struct client_process *q, struct err *e)
{
    int node = q->first;

    if (q->now || node == NOBODY || q->has_failed)
        return 0;
    remove_call(q, node);
    return give_turn(q, &q->pool->slots[node], TRAINER_GO, e);
}

int client_pool_begin(struct client_pool *p, const struct client_call *c, struct err *e)
{
    struct client_process *q = process_of(p, c->node);
    struct client_slot *s = &p->slots[c->node];

    s->call = *c;
    enqueue_call(q, s);
    return start_next(q, e);
}

int client_pool_take(struct client_pool *p, const struct client_call *c, float *out, struct client_answer *a,
                     struct err *e)
{
    struct client_process *q = process_of(p, c->node);
    struct client_slot *s = &p->slots[c->node];
    size_t bytes = p->layout.n_params * sizeof *out;

    if (s->state == IS_IDLE && client_pool_begin(p, c, e) < 0)
        return e->code;
    if (s->state == IS_QUEUED) {
        if (clear_process(q, e) < 0)
            return e->code;
        remove_call(q, c->node);
        if (give_turn(q, s, TRAINER_GO, e) < 0)
            return e->code;
    }
    if (s->state == IS_COMPUTING) {
        if (q->has_failed) {
            *e = q->why;
            return e->code;
        }
        if (await_answer(q, TRAINER_GO, s, e) < 0)
            return e->code;
        memcpy(out, result_of(q), bytes);
        q->now = NULL;
    } else {
        memcpy(out, s->kept, bytes);
        free(s->kept);
        s->kept = NULL;
    }
    s->state = IS_IDLE;
    *a = s->answer;
    return start_next(q, e);
}

/* A turn outside of the workers' steps, by the process of `c`. */
static int take_extra(struct client_pool *p, struct client_process *q, const struct client_call *c,
                      enum trainer_kind kind, struct err *e)
{
    struct client_slot *s = spare_slot(p);

    if (clear_process(q, e) < 0)
        return e->code;
    s->call = *c;
    if (give_turn(q, s, kind, e) < 0 || await_answer(q, kind, s, e) < 0)
        return e->code;
    q->now = NULL;
    s->state = IS_IDLE;
    return start_next(q, e);
}

int client_pool_measure(struct client_pool *p, const struct client_call *c, double *seconds, struct err *e)
{
    struct client_call once = *c;
    double begun = clock_now();

    once.node = TRAINER_NO_NODE;
    if (take_extra(p, process_of(p, c->node), &once, TRAINER_GO, e) < 0)
        return e->code;
    *seconds = clock_now() - begun;
    return 0;
}

int client_pool_evaluate(struct client_pool *p, const struct client_call *c, struct client_answer *a,
                         struct err *e)
{
    if (take_extra(p, process_of(p, c->node), c, TRAINER_EVALUATE, e) < 0)
        return e->code;
    *a = spare_slot(p)->answer;
    return 0;
}

/* The start. */

/* One thread of a library's for each process: results do not depend on their number, and processes do not
 * wait for each other's processors. */
static int set_environment(void *arg)
{
    static const char *const threads[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"};

    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        if (setenv(threads[i], "1", 0) < 0)
            return -1;
    return trainer_command_set_environment(arg);
}

static int open_output(struct client_process *q, struct err *e)
{
    char path[48];

    log_name(path, sizeof path, q);
    if (file_mkdirs("logs", 0700, e) < 0)
        return e->code;
    q->output = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    return q->output < 0 ? err_errno(e, ERR_IO, "%s", path) : 0;
}

static int start_process(struct client_process *q, struct err *e)
{
    const struct client_pool *p = q->pool;
    struct trainer_link_config cfg = {.program = p->main.file,
                                      .interrupted = &sim_interrupted,
                                      .waiting = check_alive,
                                      .metric = keep_metric,
                                      .shard = divide_rows,
                                      .memory = make_rows,
                                      .owner = q};
    struct trainer_command c;

    q->turn_at = clock_now();
    if (open_output(q, e) < 0 ||
        trainer_command_init(&c, &p->main, p->program, p->cfg.python, p->cfg.set->arguments, e) < 0)
        return e->code;
    cfg.fd = trainer_command_start(&q->child, &c, p->program, q->output, set_environment, e);
    trainer_command_clear(&c);
    if (cfg.fd < 0)
        return cfg.fd;
    trainer_link_open(&q->link, &cfg);
    return 0;
}

static int check_program(struct client_process *q, double deadline, struct err *e)
{
    const struct client_pool *p = q->pool;
    struct trainer_tensors own;
    int rc;

    if (trainer_link_take_tensors(&q->link, &own, deadline, e) < 0)
        return e->code;
    rc = trainer_link_compare(&q->link, 0, &own, p->cfg.spec, e);
    trainer_tensors_clear(&own);
    if (rc == 0 && !(q->link.opened & TRAINER_IS_FUNCTION))
        rc = err_set(e, ERR_TRAINER, "%s has a loop of its own, and no function of a client", p->main.file);
    if (rc < 0)
        trainer_link_refuse(&q->link, e->text);
    return rc;
}

static int admit_process(struct client_process *q, double deadline, struct err *e)
{
    struct client_pool *p = q->pool;
    struct trainer_accepted a = p->layout;
    uint32_t flags = TRAINER_SIMULATES;
    uint64_t ignored;
    void *at;
    int fd, rc;

    if (check_program(q, deadline, e) < 0)
        return e->code;
    p->gives_gradients = q->link.opened & TRAINER_GIVES_GRADIENTS;
    flags |= p->gives_gradients ? TRAINER_TAKES_GRADIENTS : 0;
    a.n_nodes = p->cfg.set->node_count;
    a.seed = p->cfg.set->seed;
    a.n_steps = settings_steps(p->cfg.set);
    a.every = 1;
    fd = make_memory((size_t)a.bytes);
    at = fd < 0 ? MAP_FAILED : mmap(NULL, (size_t)a.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        err_call(e, ERR_NOMEM, CALL_MAP, "%zu bytes of memory for the vectors of %s", (size_t)a.bytes,
                 p->main.file);
        if (fd >= 0)
            close(fd);
        return e->code;
    }
    q->memory = at;
    q->params = at;
    q->grads = (float *)(void *)(q->memory + a.grads_at);
    rc = trainer_link_accept(&q->link, &a, flags, fd, deadline, e);
    close(fd);
    if (rc == 0)
        rc = trainer_link_await_ready(&q->link, &ignored, deadline, e);
    q->link.cfg.shard = NULL; /* the rows do not change */
    return rc;
}

static int processors_here(void)
{
    cpu_set_t own;

    return sched_getaffinity(0, sizeof own, &own) == 0 ? CPU_COUNT(&own) : 1;
}

static int open_pool(struct client_pool *p, struct err *e)
{
    const struct client_pool_config *cfg = &p->cfg;
    double deadline = clock_now() + TRAINER_START_S;
    char package[PATH_MAX];
    int n = cfg->n_processes > 0 ? cfg->n_processes : processors_here();

    n = n < cfg->set->node_count ? n : cfg->set->node_count;
    n = n < PROCESSES_MOST ? n : PROCESSES_MOST;
    p->layout = trainer_link_lay_out(cfg->spec->n_params, cfg->spec->n_trained);
    p->slots = calloc((size_t)cfg->set->node_count + 1, sizeof *p->slots);
    p->processes = calloc((size_t)n, sizeof *p->processes);
    if (!p->slots || !p->processes)
        return err_set(e, ERR_NOMEM, "no memory for %d workers", cfg->set->node_count);
    if (file_join(package, sizeof package, cfg->folder, TRAINER_PACKAGE_NAME, e) < 0 ||
        file_join(p->program, sizeof p->program, cfg->folder, "trainer", e) < 0 ||
        trainer_package_unpack(&p->main, package, p->program, e) < 0)
        return e->code;
    for (; p->n < n; p->n++) {
        struct client_process *q = &p->processes[p->n];

        *q = (struct client_process){
            .pool = p, .number = p->n, .link.cfg.fd = -1, .output = -1, .first = NOBODY, .last = NOBODY};
        if (start_process(q, e) < 0) {
            p->n++;
            return e->code;
        }
    }
    for (int i = 0; i < n; i++)
        if (admit_process(&p->processes[i], deadline, e) < 0)
            return keep_failure(&p->processes[i], e);
    p->long_s = LONG_TURN_S;
    return 0;
}

int client_pool_open(struct client_pool **out, const struct client_pool_config *cfg, struct err *e)
{
    struct client_pool *p = calloc(1, sizeof *p);

    *out = NULL;
    if (!p)
        return err_set(e, ERR_NOMEM, "no memory for the processes of a training program");
    p->cfg = *cfg;
    p->long_s = LONG_TURN_S;
    if (open_pool(p, e) == 0) {
        *out = p;
        return 0;
    }
    client_pool_close(p, e->text);
    return e->code;
}

/* A program may do something after its last step, and prints why it was refused. */
static void end_process(struct client_process *q, double deadline)
{
    struct pollfd p = {.fd = q->child.fd, .events = POLLIN};
    double left = deadline - clock_now();

    trainer_link_close(&q->link);
    if (q->child.pid > 0) {
        if (left > 0 && !q->now && !flag_is_up(&sim_interrupted))
            poll(&p, 1, (int)(left * 1e3));
        child_end(&q->child, GRACE_S);
    }
    if (q->output >= 0)
        close(q->output);
    if (q->memory)
        munmap(q->memory, (size_t)q->pool->layout.bytes);
    unmap_rows(q);
}

void client_pool_close(struct client_pool *p, const char *why_failed)
{
    uint32_t flags = why_failed ? TRAINER_HAS_FAILED : 0;
    const char *why = why_failed ? why_failed : "the simulation has ended";
    double deadline = clock_now() + END_S;

    if (!p)
        return;
    for (int i = 0; i < p->n; i++)
        trainer_link_stop(&p->processes[i].link, flags, why);
    for (int i = 0; i < p->n; i++)
        end_process(&p->processes[i], deadline);
    for (int i = 0; p->slots && i <= p->cfg.set->node_count; i++) {
        free(p->slots[i].kept);
        free(p->slots[i].answer.metrics);
    }
    client_rows_clear(&p->rows);
    free(p->slots);
    free(p->processes);
    free(p);
}
