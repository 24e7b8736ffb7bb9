#include "submit/trainer/trainer_describe.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/trainer/trainer_command.h"
#include "shared/trainer/trainer_link.h"
#include "shared/trainer/trainer_shard.h"
#include "submit/files/temp.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/text.h"

enum { LINES_SHOWN = 15, LINE_BYTES = 640, OUTPUT_SHOWN = 8192 };

/* Longest time until the program stands before its first step: importing its libraries and reading its data.
 * From one report of what is awaited to the next. Time for its end after that, or after an error. */
static const double WAIT_REPORT_S = 15, END_S = 10, GRACE_S = 2;

/* What the program has still to do, and the calls by which it does it, in Python and in C. */
enum stage { AWAITS_TENSORS, AWAITS_READY };

static const struct {
    const char *what, *python, *c;
} stages[] = {
    [AWAITS_TENSORS] = {"announced its tensors", "psgd.trainer.open() or wrap()", "psgd_open()"},
    [AWAITS_READY] = {"come to its first step", "psgd.trainer.steps()", "psgd_next()"},
};

struct talk {
    const struct describe_how *how;
    struct trainer_description *out;
    struct child child;
    struct trainer_link link;
    int output; /* the file of its standard output and error */
    enum stage stage;
    double until, report_at; /* clock_now */
};

static const char *name_of(const struct talk *t)
{
    return t->how->main->file;
}

static const char *call_of(const struct talk *t)
{
    return t->how->main->is_python ? stages[t->stage].python : stages[t->stage].c;
}

/* Its output. */

/* Reads the end of the output. */
static void read_output(char out[OUTPUT_SHOWN + 1], const struct talk *t)
{
    off_t len = lseek(t->output, 0, SEEK_END);
    ssize_t n = pread(t->output, out, OUTPUT_SHOWN, len > OUTPUT_SHOWN ? len - OUTPUT_SHOWN : 0);

    out[n > 0 ? n : 0] = '\0';
}

/* Copies the last line that is not empty. "": there is none. */
static void last_line(char line[LINE_BYTES], const char *text)
{
    size_t end = strlen(text), begin;

    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == ' '))
        end--;
    for (begin = end; begin > 0 && text[begin - 1] != '\n';)
        begin--;
    snprintf(line, LINE_BYTES, "%.*s", (int)(end - begin < LINE_BYTES ? end - begin : LINE_BYTES - 1),
             text + begin);
    utf8_clean(line, strlen(line), false);
}

static void print_last_lines(const struct talk *t, const char *text)
{
    size_t from = strlen(text), end = from, n = 0;

    while (from > 0 && n < LINES_SHOWN)
        n += text[--from] == '\n' && from + 1 < end;
    from += n == LINES_SHOWN;
    if (from < end)
        console_info("The last lines of %s:", name_of(t));
    while (from < end) {
        size_t len = strcspn(text + from, "\n");
        char line[LINE_BYTES];

        snprintf(line, sizeof line, "%.*s", (int)(len < sizeof line ? len : sizeof line - 1), text + from);
        utf8_clean(line, strlen(line), false);
        console_info("\t %s", line);
        from += len + 1;
    }
}

/* What the link asks for. */

/* Called while psgd waits for the program. */
static int look_around(void *owner, struct err *e)
{
    struct talk *t = owner;
    const struct describe_how *how = t->how;
    struct pollfd child = {.fd = t->child.fd, .events = POLLIN};
    char hour[TEXT_AMOUNT];

    if (interrupt_check(e) < 0)
        return e->code;
    if (how->deadline > 0 && clock_now() > how->deadline)
        return err_set(e, ERR_TIMEOUT, "the %g s of --timeout are over; %s has not %s", how->timeout_s,
                       name_of(t), stages[t->stage].what);
    /* A process that it has started may still have its socket. */
    if (poll(&child, 1, 0) > 0) {
        t->link.has_ended = true;
        return err_set(e, ERR_TRAINER, "%s has ended", name_of(t));
    }
    if (clock_now() > t->report_at) {
        t->report_at = clock_now() + WAIT_REPORT_S;
        console_info("%s runs on this machine, and has not %s yet; waiting until %s (Ctrl-C ends it).",
                     name_of(t), stages[t->stage].what,
                     text_hour(hour, clock_wall() + t->until - clock_now()));
    }
    return 0;
}

/* There is no job whose record it could be. */
static int ignore_metric(void *owner, const char *name, double value, struct err *e)
{
    (void)owner, (void)name, (void)value, (void)e;
    return 0;
}

/* The number of mini-batches into which psgd divides the rows. */
static int count_batches(struct talk *t, const struct shard_request *rows, struct err *e)
{
    const struct settings *set = t->how->set;
    const struct shard_request request = {
        .n_rows = rows->n_rows, .labels = rows->labels, .batch = (size_t)set->batch_size};
    struct partition p;
    struct blocks b;
    int rc;

    if (settings_blocks(&b, set, e) < 0)
        return e->code;
    rc = trainer_shard_divide(&p, set, (size_t)b.n_blocks, &request, e);
    blocks_clear(&b);
    if (rc < 0)
        return rc;
    t->out->n_batches = p.n_rows;
    partition_clear(&p);
    return 0;
}

/* The rows of worker 0. */
static int make_shard(void *owner, const struct shard_request *request, uint32_t **index, size_t *n,
                      struct err *e)
{
    struct talk *t = owner;

    if (t->out->gives_gradients && count_batches(t, request, e) < 0)
        return e->code;
    return trainer_shard_make(index, n, t->how->set, 0, request, e);
}

static int make_memory(void *owner, size_t bytes)
{
    struct err ignored;
    int fd = file_make_in_memory("", 0, &ignored);

    (void)owner;
    if (fd >= 0 &&
        (ftruncate(fd, (off_t)bytes) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Its tensors and values. */

/* Makes the model's document, and parses it. */
static int take_layout(struct talk *t, const struct trainer_tensors *tensors, struct err *e)
{
    const char *slash = strrchr(name_of(t), '/');
    json_t *list = json_array(), *frozen = tensors->n_frozen > 0 ? json_object() : NULL;

    for (size_t i = 0; i < tensors->n; i++) {
        const struct model_tensor *one = &tensors->all[i];
        json_t *line = json_pack("{s:s, s:o}", "name", one->name, "shape",
                                 json_sizes(one->shape, (size_t)one->n_dims));

        if (line && one->is_statistic)
            json_object_set_new(line, "statistic", json_true());
        json_array_append_new(list, line);
    }
    for (size_t i = 0; i < tensors->n_frozen; i++)
        json_object_set_new(frozen, tensors->frozen[i].name, json_integer(tensors->frozen[i].checksum));
    t->out->model = json_pack("{s:i, s:s, s:b, s:o, s:o*}", "version", 1, "name",
                              slash ? slash + 1 : name_of(t), "trainer", 1, "tensors", list, "frozen",
                              frozen);
    if (!t->out->model || json_array_size(list) != tensors->n ||
        json_object_size(frozen) != tensors->n_frozen)
        return err_set(e, ERR_NOMEM, "no memory for the %zu tensors of %s", tensors->n, name_of(t));
    if (model_spec_parse(&t->out->spec, t->out->model, e) == 0)
        return 0;
    err_at(e, "%s: the tensors that it announces", name_of(t));
    return e->code = e->code == ERR_CONFIG ? ERR_TRAINER : e->code;
}

/* Is it a loop, or a function, as this job needs? */
static int check_kind(struct talk *t, struct err *e)
{
    t->out->is_function = t->link.opened & TRAINER_IS_FUNCTION;
    t->out->gives_gradients = t->link.opened & TRAINER_GIVES_GRADIENTS;
    if (t->how->is_simulated && !t->out->is_function) {
        err_set(e, ERR_TRAINER,
                "%s has a loop of its own, and a simulation calls a function of the program for each worker "
                "in turn",
                name_of(t));
        return err_hint(e, "Give such a function to psgd.trainer.client(), or run the job on agents: "
                           "job_submit --trainer.");
    }
    if (t->how->is_simulated || !t->out->gives_gradients)
        return 0;
    err_set(e, ERR_TRAINER, "%s gives gradients, and on agents a program makes its updates itself",
            name_of(t));
    return err_hint(e, "Run it by job_submit simulate, or give psgd.trainer.client() a function train.");
}

static int take_tensors(struct talk *t, struct err *e)
{
    struct trainer_tensors tensors;
    int rc;

    if (trainer_link_take_tensors(&t->link, &tensors, t->until, e) < 0)
        return e->code;
    rc = check_kind(t, e) < 0 ? e->code : take_layout(t, &tensors, e);
    trainer_tensors_clear(&tensors);
    return rc;
}

/* Copies the values, and checks the copy: the program may still write to the memory. */
static int copy_values(struct talk *t, const float *params, struct err *e)
{
    struct trainer_description *d = t->out;
    size_t n = d->spec.n_params;

    d->values = malloc(n * sizeof *d->values);
    if (!d->values)
        return err_set(e, ERR_NOMEM, "no memory for the %zu parameters of %s", n, name_of(t));
    memcpy(d->values, params, n * sizeof *d->values);
    for (int k = 0; k < d->spec.n_tensors; k++) {
        const struct model_tensor *one = &d->spec.tensors[k];

        for (size_t i = 0; i < one->n; i++)
            if (!isfinite(d->values[one->offset + i]))
                return err_set(e, ERR_TRAINER, "%s: '%s' has a value at its start that is not finite",
                               name_of(t), one->name);
    }
    return 0;
}

/* Only the program writes to the memory, and only params: the other vectors take no pages. */
static int take_values(struct talk *t, struct err *e)
{
    const struct settings *set = t->how->set;
    const struct model_spec *m = &t->out->spec;
    struct trainer_accepted a = trainer_link_lay_out(m->n_params, m->n_trained);
    uint64_t n_batches;
    int fd = make_memory(t, (size_t)a.bytes), rc;
    void *params = fd < 0 ? MAP_FAILED : mmap(NULL, (size_t)a.grads_at, PROT_READ, MAP_SHARED, fd, 0);

    if (params == MAP_FAILED) {
        err_call(e, ERR_NOMEM, CALL_MAP, "memory for the %zu parameters of %s", m->n_params, name_of(t));
        if (fd >= 0)
            close(fd);
        return e->code;
    }
    a.n_nodes = set->node_count;
    a.seed = set->seed;
    a.n_steps = (uint64_t)set->max_steps;
    a.every = (uint64_t)(set->local_steps > 0 ? set->local_steps : 1);
    rc = trainer_link_accept(&t->link, &a, TRAINER_DESCRIBES | t->how->flags, fd, t->until, e);
    close(fd);
    t->stage = AWAITS_READY;
    if (rc == 0)
        rc = trainer_link_await_ready(&t->link, &n_batches, t->until, e);
    if (rc == 0 && !t->out->gives_gradients)
        t->out->n_batches = n_batches;
    if (rc == 0)
        rc = copy_values(t, params, e);
    munmap(params, (size_t)a.grads_at);
    return rc;
}

/* Its end. */

/* Waits until it has ended by itself, or END_S are over. */
static void await_end(const struct talk *t)
{
    struct pollfd p[] = {{.fd = t->child.fd, .events = POLLIN}, {.fd = interrupt_fd(), .events = POLLIN}};

    if (interrupt_signal() == 0)
        poll(p, 2, (int)(END_S * 1e3));
}

/* The program has ended with this status before it was ready. `text`: its output. */
static int explain_end(const struct talk *t, int status, const char *text, struct err *e)
{
    char line[LINE_BYTES];

    last_line(line, text);
    if (WIFSIGNALED(status))
        return err_set(e, ERR_TRAINER, "%s was killed by signal %d on this machine%s%s", name_of(t),
                       WTERMSIG(status), line[0] ? "; its last line: " : "", line);
    if (WEXITSTATUS(status) == 0) {
        err_set(e, ERR_TRAINER, "%s ended without %s: nothing was exchanged", name_of(t), call_of(t));
        return err_hint(e, "docs/trainer.md shows the lines to add.");
    }
    err_set(e, ERR_TRAINER, "%s ended with exit status %d on this machine%s%s", name_of(t),
            WEXITSTATUS(status), line[0] ? ": " : "", line);
    return t->how->main->is_python && strstr(line, "No module named")
               ? err_hint(e, "%s has started it; --trainer-python names another interpreter.", t->how->python)
               : e->code;
}

/* Ends the program after an error. One that has given up, or was refused, prints why before it ends. */
static int end_after_error(struct talk *t, struct err *e)
{
    bool is_its_own = e->code == ERR_TRAINER, has_ended = t->link.has_ended;
    char text[OUTPUT_SHOWN + 1];
    int status;

    if (e->code == ERR_TIMEOUT && clock_now() >= t->until)
        err_set(e, ERR_TIMEOUT, "%s has run for %d s on this machine and has not %s, which %s does",
                name_of(t), TRAINER_START_S, stages[t->stage].what, call_of(t));
    if (is_its_own && !has_ended && !t->link.has_failed)
        trainer_link_refuse(&t->link, e->text);
    trainer_link_close(&t->link);
    if (is_its_own)
        await_end(t);
    status = child_end(&t->child, GRACE_S);
    read_output(text, t);
    if (is_its_own || e->code == ERR_TIMEOUT)
        print_last_lines(t, text);
    return has_ended ? explain_end(t, status, text, e) : e->code;
}

/* A program that runs already prints its own lines, and gets the reason. */
static int refuse_running(struct talk *t, struct err *e)
{
    if (!t->link.has_ended && !t->link.has_failed)
        trainer_link_refuse(&t->link, e->text);
    trainer_link_close(&t->link);
    return e->code;
}

static int ask_running(struct talk *t, struct err *e)
{
    if (take_tensors(t, e) < 0 || take_values(t, e) < 0 || trainer_link_again(&t->link, e) < 0)
        return refuse_running(t, e);
    trainer_link_close(&t->link);
    return 0;
}

/* Follows the program to its end, whose status does not count: a loop without a step may make it fail. */
static int follow(struct talk *t, struct err *e)
{
    if (take_tensors(t, e) < 0 || take_values(t, e) < 0)
        return end_after_error(t, e);
    trainer_link_stop(&t->link, TRAINER_DESCRIBES, "job_submit has seen its tensors");
    trainer_link_close(&t->link);
    await_end(t);
    child_end(&t->child, GRACE_S);
    return 0;
}

/* Its start. */

static void open_link(struct talk *t, int fd)
{
    trainer_link_open(&t->link, &(struct trainer_link_config){.fd = fd,
                                                              .program = name_of(t),
                                                              .waiting = look_around,
                                                              .metric = ignore_metric,
                                                              .shard = make_shard,
                                                              .memory = make_memory,
                                                              .owner = t});
}

static int describe_running(struct talk *t, struct err *e)
{
    int fd = fcntl(t->how->program_fd, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return err_errno(e, ERR_USAGE, "--program-fd %d", t->how->program_fd);
    t->child.fd = -1;
    open_link(t, fd);
    return ask_running(t, e);
}

static int start_program(struct talk *t, const char *temp, struct err *e)
{
    const struct describe_how *how = t->how;
    struct trainer_command c;
    int fd;

    if (temp_file(&t->output, temp, e) < 0 ||
        trainer_command_init(&c, how->main, how->folder, how->python, how->set->arguments, e) < 0)
        return e->code;
    fd = trainer_command_start(&t->child, &c, how->folder, t->output, trainer_command_set_environment, e);
    trainer_command_clear(&c);
    if (fd >= 0) {
        open_link(t, fd);
        return 0;
    }
    return err_hint(
        e, how->main->is_python
               ? "--trainer-python names another interpreter."
               : "If programs may not run in the folder for temporary files, set TMPDIR to another.");
}

int trainer_describe(struct trainer_description *out, const struct describe_how *how, struct err *e)
{
    struct talk t = {.how = how,
                     .out = out,
                     .output = -1,
                     .until = clock_now() + TRAINER_START_S,
                     .report_at = clock_now() + WAIT_REPORT_S};
    int rc;

    *out = (struct trainer_description){0};
    rc = how->program_fd > 0 ? describe_running(&t, e) : start_program(&t, how->temp, e);
    if (rc == 0 && how->program_fd == 0)
        rc = follow(&t, e);
    if (t.output >= 0)
        close(t.output);
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
