#include "submit/trainer/trainer_describe.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/clock.h"
#include "shared/base/fd_pass.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/trainer/trainer_command.h"
#include "shared/trainer/trainer_shard.h"
#include "shared/trainer/trainer_wire.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/text.h"

enum { LINES_SHOWN = 15, LINE_BYTES = 256, OUTPUT_KEPT = 8192 };

/* Longest time until the program stands before its first step: importing its libraries and reading its data.
 * From one report of what is awaited to the next. Time for its end after that. */
static const double READY_S = 600, WAIT_REPORT_S = 15, END_S = 10, GRACE_S = 2;

/* What the program has still to do. */
enum stage { AWAITS_OPEN, AWAITS_TENSORS, AWAITS_VALUES, AWAITS_READY, IS_READY };

/* The calls that it has not made, in Python and in C. */
static const struct {
    const char *python, *c, *what;
} calls[] = {
    [AWAITS_OPEN] = {"psgd.trainer.wrap()", "psgd_open()", "announced its tensors"},
    [AWAITS_TENSORS] = {"psgd.trainer.wrap()", "psgd_open()", "announced its tensors"},
    [AWAITS_VALUES] = {"psgd.trainer.steps()", "psgd_next()", "come to its first step"},
    [AWAITS_READY] = {"psgd.trainer.steps()", "psgd_next()", "come to its first step"},
};

struct talk {
    const struct describe_how *how;
    struct trainer_description *out;
    struct child child;
    int socket, output; /* output: the reading end of the pipe of its standard output and error */
    uint64_t n_received, n_sent;
    enum stage stage;
    uint64_t n_tensors; /* announced by OPEN */
    json_t *tensors;
    float *params;              /* the vector in the shared memory; NULL: not yet */
    char kept[OUTPUT_KEPT + 1]; /* the end of its output */
    size_t n_kept;
    double closed_at; /* clock_now when it closed its end of the socket; 0: not yet */
};

static const char *name_of(const struct talk *t)
{
    return t->how->main->file;
}

/* Its output. */

/* Adds to what is kept, of which the oldest bytes go. */
static void keep_output(struct talk *t, const char *bytes, size_t n)
{
    size_t room = OUTPUT_KEPT - t->n_kept;

    if (n > room) {
        memmove(t->kept, t->kept + (n - room), t->n_kept - (n - room));
        t->n_kept -= n - room;
    }
    memcpy(t->kept + t->n_kept, bytes, n);
    t->n_kept += n;
    t->kept[t->n_kept] = '\0';
}

/* Reads what is there. Returns false at the end of the output. */
static bool read_output(struct talk *t)
{
    char bytes[OUTPUT_KEPT / 2];
    ssize_t n;

    while ((n = read(t->output, bytes, sizeof bytes)) > 0)
        keep_output(t, bytes, (size_t)n);
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Copies the last line that is not empty. "": there is none. */
static void last_line(char out[LINE_BYTES], const struct talk *t)
{
    size_t end = t->n_kept, begin;

    while (end > 0 && (t->kept[end - 1] == '\n' || t->kept[end - 1] == ' '))
        end--;
    for (begin = end; begin > 0 && t->kept[begin - 1] != '\n';)
        begin--;
    snprintf(out, LINE_BYTES, "%.*s", (int)(end - begin < LINE_BYTES ? end - begin : LINE_BYTES - 1),
             t->kept + begin);
    utf8_clean(out, strlen(out), false);
}

static void print_last_lines(struct talk *t)
{
    size_t from = t->n_kept, n = 0;

    while (from > 0 && n < LINES_SHOWN)
        n += t->kept[--from] == '\n' && from + 1 < t->n_kept;
    from += n == LINES_SHOWN;
    if (from < t->n_kept)
        console_info("The last lines of %s:", name_of(t));
    while (from < t->n_kept) {
        size_t len = strcspn(t->kept + from, "\n");
        char line[LINE_BYTES];

        snprintf(line, sizeof line, "%.*s", (int)(len < sizeof line ? len : sizeof line - 1), t->kept + from);
        utf8_clean(line, strlen(line), false);
        console_info("\t %s", line);
        from += len + 1;
    }
}

/* Records. */

static int send_record(struct talk *t, struct trainer_record *r, int fd, struct err *e)
{
    r->version = TRAINER_VERSION;
    r->sequence = t->n_sent++;
    if (fd_pass_send(t->socket, r, sizeof *r, fd, 0) == (ssize_t)sizeof *r || errno == EPIPE ||
        errno == ECONNRESET)
        return 0; /* a program that has ended is noticed by its end */
    return err_errno(e, ERR_IO, "sending to %s", name_of(t));
}

static int send_text(struct talk *t, enum trainer_kind kind, unsigned flags, const char *text, struct err *e)
{
    struct trainer_record r = {.kind = kind, .flags = flags};

    snprintf(r.u.of.text, sizeof r.u.of.text, "%s", text);
    return send_record(t, &r, -1, e);
}

/* Tells the program why it is refused. Returns the error's code. */
static int refuse(struct talk *t, struct err *e)
{
    struct err ignored;

    send_text(t, TRAINER_REFUSED, 0, e->text, &ignored);
    return e->code;
}

static int add_tensor(struct talk *t, const struct trainer_record *r, struct err *e)
{
    size_t shape[TRAINER_DIMS];
    json_t *tensor;

    if (r->n_dims < 0 || r->n_dims > TRAINER_DIMS)
        return err_set(e, ERR_TRAINER, "%s: \"%s\" has %d dimensions, at most %d", name_of(t), r->u.of.text,
                       r->n_dims, TRAINER_DIMS);
    for (int i = 0; i < r->n_dims; i++)
        shape[i] = r->u.of.shape[i];
    tensor = json_pack("{s:o, s:o}", "name", json_text(r->u.of.text, SIZE_MAX), "shape",
                       json_sizes(shape, (size_t)r->n_dims));
    if (tensor && (r->flags & TRAINER_STATISTIC))
        json_object_set_new(tensor, "statistic", json_true());
    return json_array_append_new(t->tensors, tensor) < 0
               ? err_set(e, ERR_NOMEM, "no memory for the tensors of %s", name_of(t))
               : 0;
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + TRAINER_PAGE - 1) / TRAINER_PAGE * TRAINER_PAGE;
}

/* Only the program writes to the memory, and only params: the other vectors take no pages. Returns the
 * descriptor. */
static int make_memory(struct talk *t, uint64_t bytes, struct err *e)
{
    size_t len = (size_t)whole_pages(4 * (uint64_t)t->out->spec.n_params);
    int fd = file_make_in_memory("", 0, e);
    void *map;

    if (fd < 0)
        return fd;
    map = ftruncate(fd, (off_t)bytes) < 0 ? MAP_FAILED : mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        err_call(e, ERR_NOMEM, CALL_MAP, "%llu bytes for the tensors of %s", (unsigned long long)bytes,
                 name_of(t));
        close(fd);
        return e->code;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        err_errno(e, ERR_IO, "sealing the memory of %s", name_of(t));
        munmap(map, len);
        close(fd);
        return e->code;
    }
    t->params = map;
    return fd;
}

static int accept_program(struct talk *t, struct err *e)
{
    const struct settings *set = t->how->set;
    const struct model_spec *m = &t->out->spec;
    uint64_t vector = whole_pages(4 * (uint64_t)m->n_params);
    struct trainer_record r = {.kind = TRAINER_ACCEPTED, .flags = TRAINER_DESCRIBES};
    int fd = make_memory(t, 3 * vector, e), rc;

    if (fd < 0)
        return fd;
    r.u.accepted = (struct trainer_accepted){
        .n_nodes = set->node_count,
        .n_params = m->n_params,
        .n_trained = m->n_trained,
        .grads_at = vector,
        .combined_at = 2 * vector,
        .bytes = 3 * vector,
        .seed = set->seed,
        .n_steps = (uint64_t)set->max_steps,
        .every = (uint64_t)(set->local_steps > 0 ? set->local_steps : 1)};
    rc = send_record(t, &r, fd, e);
    close(fd);
    return rc;
}

/* All tensors are announced: the document of the model is complete, and its parser checks them. */
static int take_layout(struct talk *t, struct err *e)
{
    const char *slash = strrchr(name_of(t), '/');

    t->out->model = json_pack("{s:i, s:s, s:b, s:O}", "version", 1, "name", slash ? slash + 1 : name_of(t),
                              "trainer", 1, "tensors", t->tensors);
    if (!t->out->model)
        return err_set(e, ERR_NOMEM, "no memory for the tensors of %s", name_of(t));
    if (model_spec_parse(&t->out->spec, t->out->model, e) < 0) {
        err_at(e, "%s: the tensors that it announces", name_of(t));
        e->code = e->code == ERR_CONFIG ? ERR_TRAINER : e->code;
        return refuse(t, e);
    }
    t->stage = AWAITS_VALUES;
    return accept_program(t, e);
}

/* *labels: those in the program's file of at least 4 n bytes, mapped; the caller unmaps 4 n bytes. */
static int map_labels(const int32_t **labels, const struct talk *t, uint64_t n, int fd, struct err *e)
{
    struct stat st;
    void *map;

    if (fd < 0 || n > UINT32_MAX || fstat(fd, &st) < 0 || (uint64_t)st.st_size < 4 * n ||
        !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK))
        return err_set(e, ERR_TRAINER, "%s: shard() has sent no labels of %llu rows", name_of(t),
                       (unsigned long long)n);
    map = n > 0 ? mmap(NULL, (size_t)(4 * n), PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    if (map == MAP_FAILED)
        return err_call(e, ERR_NOMEM, CALL_MAP, "%llu labels", (unsigned long long)n);
    *labels = map;
    return 0;
}

static int send_shard(struct talk *t, const uint32_t *index, size_t n, struct err *e)
{
    struct trainer_record r = {.kind = TRAINER_SHARDED, .n = n};
    int fd = file_make_in_memory(index, n * sizeof *index, e), rc;

    if (fd < 0)
        return fd;
    rc = send_record(t, &r, fd, e);
    close(fd);
    return rc;
}

/* Answers with the rows of worker 0. */
static int answer_shard(struct talk *t, const struct trainer_record *r, int fd, struct err *e)
{
    const int32_t *labels = NULL;
    uint32_t *index;
    size_t n;
    int rc;

    if ((r->flags & TRAINER_HAS_LABELS) && map_labels(&labels, t, r->n, fd, e) < 0)
        return e->code;
    rc = trainer_shard_make(&index, &n, t->how->set, 0, (size_t)r->n, labels, e);
    if (labels)
        munmap((void *)(uintptr_t)labels, (size_t)(4 * r->n));
    if (rc < 0) {
        err_at(e, "%s", name_of(t));
        return refuse(t, e);
    }
    rc = send_shard(t, index, n, e);
    free(index);
    return rc;
}

/* The name of the tensor that has parameter i. */
static const char *tensor_at(const struct model_spec *m, size_t i)
{
    int k = 0;

    while (i < m->tensors[k].offset || i - m->tensors[k].offset >= m->tensors[k].n)
        k++;
    return m->tensors[k].name;
}

static int take_values(struct talk *t, struct err *e)
{
    struct trainer_description *d = t->out;
    size_t n = d->spec.n_params;

    d->values = malloc(n * sizeof *d->values);
    if (!d->values)
        return err_set(e, ERR_NOMEM, "no memory for the %zu parameters of %s", n, name_of(t));
    memcpy(d->values, t->params, n * sizeof *d->values);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(d->values[i]))
            return err_set(e, ERR_TRAINER, "%s: \"%s\" has a value at its start that is not finite",
                           name_of(t), tensor_at(&d->spec, i));
    return 0;
}

static int take_ready(struct talk *t, const struct trainer_record *r, struct err *e)
{
    if (take_values(t, e) < 0)
        return e->code;
    t->out->n_batches = r->n;
    t->stage = IS_READY;
    return send_text(t, TRAINER_STOP, TRAINER_DESCRIBES, "job_submit has seen its tensors", e);
}

static int refuse_order(const struct talk *t, const struct trainer_record *r, struct err *e)
{
    return err_set(e, ERR_TRAINER, "%s has sent record %u out of turn, before it has %s", name_of(t), r->kind,
                   calls[t->stage].what);
}

static int take_record(struct talk *t, const struct trainer_record *r, int fd, struct err *e)
{
    switch (r->kind) {
    case TRAINER_OPEN:
        if (t->stage != AWAITS_OPEN)
            break;
        if (r->n < 1 || r->n > TRAINER_TENSORS_MAX)
            return err_set(e, ERR_TRAINER, "%s announces %llu tensors, expected 1 to %d", name_of(t),
                           (unsigned long long)r->n, TRAINER_TENSORS_MAX);
        t->n_tensors = r->n;
        t->stage = AWAITS_TENSORS;
        return 0;
    case TRAINER_TENSOR:
        if (t->stage != AWAITS_TENSORS)
            break;
        if (add_tensor(t, r, e) < 0)
            return refuse(t, e);
        return json_array_size(t->tensors) == t->n_tensors ? take_layout(t, e) : 0;
    case TRAINER_VALUES:
        if (t->stage != AWAITS_VALUES)
            break;
        t->stage = AWAITS_READY;
        return 0;
    case TRAINER_SHARD:
        if (t->stage != AWAITS_READY)
            break;
        return answer_shard(t, r, fd, e);
    case TRAINER_READY:
        if (t->stage != AWAITS_READY)
            break;
        return take_ready(t, r, e);
    case TRAINER_METRIC:
        if (t->stage < AWAITS_VALUES)
            break;
        return 0;
    case TRAINER_FAILED:
        return err_set(e, ERR_TRAINER, "%s: %s", name_of(t), r->u.of.text);
    default:
        break;
    }
    return refuse_order(t, r, e);
}

static int check_record(const struct talk *t, struct trainer_record *r, ssize_t n, struct err *e)
{
    if (n != (ssize_t)sizeof *r || r->version != TRAINER_VERSION)
        return err_set(e, ERR_TRAINER,
                       "%s uses another version of psgd.trainer, or of psgd_trainer.c, than this job_submit, "
                       "which has version %d",
                       name_of(t), TRAINER_VERSION);
    if (r->sequence != t->n_received || !memchr(r->u.of.text, '\0', sizeof r->u.of.text))
        return err_set(e, ERR_TRAINER, "%s has sent a malformed record", name_of(t));
    utf8_clean(r->u.of.text, strlen(r->u.of.text), false);
    return 0;
}

/* Takes all records that are there. */
static int read_records(struct talk *t, struct err *e)
{
    struct trainer_record r;
    ssize_t n = 1;
    int fd, rc = 0;

    while (rc == 0 && t->stage != IS_READY &&
           (n = fd_pass_receive(t->socket, &r, sizeof r, &fd, MSG_DONTWAIT)) > 0) {
        rc = check_record(t, &r, n, e);
        t->n_received++;
        if (rc == 0)
            rc = take_record(t, &r, fd, e);
        if (fd >= 0)
            close(fd);
    }
    if (n == 0 && t->closed_at == 0)
        t->closed_at = clock_now();
    return rc;
}

/* Waiting. */

static int check_wait(const struct talk *t, double until, double *report_at, struct err *e)
{
    const struct describe_how *how = t->how;
    char hour[TEXT_AMOUNT];

    if (interrupt_check(e) < 0)
        return e->code;
    if (how->deadline > 0 && clock_now() > how->deadline)
        return err_set(e, ERR_TIMEOUT, "the %g s of --timeout are over; %s has not %s", how->timeout_s,
                       name_of(t), calls[t->stage].what);
    if (t->closed_at > 0 && clock_now() > t->closed_at + END_S)
        return err_set(e, ERR_TRAINER, "%s has closed its socket to psgd, and goes on without it",
                       name_of(t));
    if (clock_now() > until)
        return err_set(e, ERR_TIMEOUT, "%s has run for %g s here and has not %s, which %s does", name_of(t),
                       READY_S, calls[t->stage].what,
                       how->main->is_python ? calls[t->stage].python : calls[t->stage].c);
    if (clock_now() > *report_at) {
        *report_at = clock_now() + WAIT_REPORT_S;
        console_info("%s runs on this machine, and has not %s yet; waiting until %s (Ctrl-C ends it).",
                     name_of(t), calls[t->stage].what, text_hour(hour, clock_wall() + until - clock_now()));
    }
    return 0;
}

/* Waits until the program has ended, or is ready. *has_ended: it has ended. */
static int await_ready(struct talk *t, bool *has_ended, struct err *e)
{
    double until = clock_now() + READY_S, report_at = clock_now() + WAIT_REPORT_S;
    struct pollfd p[] = {{.fd = t->child.fd, .events = POLLIN},
                         {.fd = t->socket, .events = POLLIN},
                         {.fd = t->output, .events = POLLIN},
                         {.fd = interrupt_fd(), .events = POLLIN}};

    *has_ended = false;
    while (t->stage != IS_READY && !*has_ended) {
        poll(p, sizeof p / sizeof *p, 1000);
        *has_ended = p[0].revents != 0; /* what it has sent before is read once more below */
        if (p[1].revents & (POLLHUP | POLLERR))
            p[1].fd = -1; /* and is not polled again: its end follows */
        if (p[2].revents && !read_output(t))
            p[2].fd = -1;
        if (read_records(t, e) < 0 || (t->stage != IS_READY && check_wait(t, until, &report_at, e) < 0))
            return e->code;
    }
    return 0;
}

/* Reads its output until it has ended by itself, or END_S are over. */
static void await_end(struct talk *t)
{
    double until = clock_now() + END_S, left = END_S;
    struct pollfd p[] = {{.fd = t->child.fd, .events = POLLIN},
                         {.fd = t->output, .events = POLLIN},
                         {.fd = interrupt_fd(), .events = POLLIN}};

    while (left > 0 && !p[0].revents && interrupt_signal() == 0) {
        poll(p, sizeof p / sizeof *p, (int)(left * 1e3) + 1);
        if (p[1].revents && !read_output(t))
            p[1].fd = -1;
        left = until - clock_now();
    }
}

/* The program has ended with this status before it was ready. */
static int explain_end(struct talk *t, int status, struct err *e)
{
    const char *call = t->how->main->is_python ? calls[t->stage].python : calls[t->stage].c;
    char line[LINE_BYTES];

    read_output(t);
    last_line(line, t);
    print_last_lines(t);
    if (WIFSIGNALED(status))
        return err_set(e, ERR_TRAINER, "%s was killed by signal %d on this machine%s%s", name_of(t),
                       WTERMSIG(status), line[0] ? "; its last line: " : "", line);
    if (WEXITSTATUS(status) == 0)
        return err_set(e, ERR_TRAINER, "%s ended without %s: nothing was exchanged", name_of(t), call);
    err_set(e, ERR_TRAINER, "%s ended with exit status %d on this machine%s%s", name_of(t),
            WEXITSTATUS(status), line[0] ? ": " : "", line);
    return t->how->main->is_python && strstr(line, "No module named")
               ? err_hint(e, "%s has started it; --trainer-python names another interpreter.", t->how->python)
               : e->code;
}

/* Ends the program after an error. One that has given up, or was refused, prints why before it ends. */
static int end_after_error(struct talk *t, struct err *e)
{
    bool is_its_own = e->code == ERR_TRAINER;

    shutdown(t->socket, SHUT_RDWR);
    if (is_its_own)
        await_end(t);
    child_end(&t->child, GRACE_S);
    read_output(t);
    if (is_its_own || e->code == ERR_TIMEOUT)
        print_last_lines(t);
    return e->code;
}

/* Follows the program to its end. */
static int follow(struct talk *t, struct err *e)
{
    bool has_ended;

    if (await_ready(t, &has_ended, e) < 0)
        return end_after_error(t, e);
    if (has_ended && t->stage != IS_READY)
        return explain_end(t, child_wait(&t->child), e);
    await_end(t);
    child_end(&t->child, GRACE_S);
    return 0;
}

/* Starts the program. Its ends of socket and pipe are open in it alone. */
static int start_program(struct talk *t, struct err *e)
{
    const struct describe_how *how = t->how;
    int sockets[2] = {-1, -1}, pipes[2] = {-1, -1}, rc;
    struct trainer_command c;

    if (trainer_command_init(&c, how->main, how->folder, how->python, how->set->arguments, e) < 0)
        return e->code;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0 ||
        pipe2(pipes, O_CLOEXEC | O_NONBLOCK) < 0) {
        rc = err_errno(e, ERR_IO, "a socket for %s", name_of(t));
    } else {
        const struct child_how start = {.argv = c.argv,
                                        .folder = how->folder,
                                        .out = pipes[1],
                                        .err = pipes[1],
                                        .extra = sockets[1],
                                        .is_foreign = true,
                                        .confine = trainer_command_set_environment};

        fcntl(pipes[1], F_SETFL, 0); /* the program waits for room in it */
        rc = child_start(&t->child, &start, e);
    }
    if (rc < 0)
        err_hint(e,
                 how->main->is_python
                     ? "--trainer-python names another interpreter."
                     : "If programs may not run in the folder for temporary files, set TMPDIR to another.");
    t->socket = sockets[0];
    t->output = pipes[0];
    if (sockets[1] >= 0)
        close(sockets[1]);
    if (pipes[1] >= 0)
        close(pipes[1]);
    trainer_command_clear(&c);
    return rc;
}

int trainer_describe(struct trainer_description *out, const struct describe_how *how, struct err *e)
{
    struct talk t = {.how = how, .out = out, .socket = -1, .output = -1, .tensors = json_array()};
    int rc;

    *out = (struct trainer_description){0};
    rc = start_program(&t, e);
    if (rc == 0)
        rc = follow(&t, e);
    else if (rc == ERR_IO)
        rc = e->code = ERR_TRAINER;
    if (t.params)
        munmap(t.params, (size_t)whole_pages(4 * (uint64_t)out->spec.n_params));
    if (t.socket >= 0)
        close(t.socket);
    if (t.output >= 0)
        close(t.output);
    json_decref(t.tensors);
    if (rc < 0)
        trainer_description_clear(out);
    return rc;
}

void trainer_description_clear(struct trainer_description *d)
{
    json_decref(d->model);
    free(d->values);
    model_spec_clear(&d->spec);
    *d = (struct trainer_description){0};
}
