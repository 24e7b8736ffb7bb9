#include "agent/api/curve.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/api/etag.h"
#include "shared/base/clock.h"
#include "shared/base/compiler.h"
#include "shared/base/file.h"
#include "shared/records/artifacts.h"

enum { OUT_MAX_BYTES = 64 << 20, CPU_S = 30, BACKGROUND = 10 };

/* The process: `agent curves FILE NAMES X POINTS FROM TO`, with the records as descriptor 3. */
enum { FIRST_ARG = 2, N_ARGS = 6, RECORDS_FD = 3 };
#define MEMORY_BYTES (512ull << 20)

struct curve {
    struct curves *all;
    struct curve *next;
    char args[N_ARGS][QUERY_VALUE_MAX + 1]; /* as curve_main takes them */
    char etag[24];
    int fd, out; /* the records, and the document; -1: none */
    bool is_running, is_done;
    struct child child;
    struct watch watch;
    struct timer deadline;
    struct err why; /* code 0: the document is complete */
};

static void start_next(struct curves *all);

static void unlink_curve(struct curve *c)
{
    struct curve **at = &c->all->first;

    while (*at && *at != c)
        at = &(*at)->next;
    if (*at)
        *at = c->next;
}

/* Starts the next one that waits, and lets the request of this one be answered. */
static void finish_curve(struct curve *c)
{
    unlink_curve(c);
    timer_cancel(c->all->loop, &c->deadline);
    c->is_done = true;
    c->is_running = false;
    (*c->all->n_changes)++;
    start_next(c->all);
}

static void end_process(struct curve *c)
{
    if (!c->is_running)
        return;
    loop_unwatch(c->all->loop, &c->watch);
    child_end(&c->child, 0);
    c->is_running = false;
}

static void on_deadline(void *arg)
{
    struct curve *c = arg;

    end_process(c);
    err_set(&c->why, ERR_TIMEOUT, "the curves were not made within %d s", CURVE_S);
    finish_curve(c);
}

/* A process that fails writes its error in place of the document. */
static void read_why(struct curve *c)
{
    char text[512];
    ssize_t n = pread(c->out, text, sizeof text - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    err_set(&c->why, ERR_PROTOCOL, "%s", text);
}

static void on_ended(void *arg, uint32_t events)
{
    struct curve *c = arg;
    int status;

    (void)events;
    loop_unwatch(c->all->loop, &c->watch); /* before child_wait closes the descriptor */
    status = child_wait(&c->child);
    if (WIFSIGNALED(status))
        err_set(&c->why, ERR_IO, "the process that makes curves was killed by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) == EXIT_FAILURE)
        read_why(c);
    else if (WEXITSTATUS(status) != EXIT_SUCCESS)
        err_set(&c->why, ERR_IO, "the process that makes curves ended with status %d", WEXITSTATUS(status));
    finish_curve(c);
}

/* In the process, before it becomes the program: with lower priority than the nodes of jobs, and limited. */
static int confine(void *arg)
{
    const struct rlimit bytes = {OUT_MAX_BYTES, OUT_MAX_BYTES}, files = {16, 16};
    sigset_t none;

    (void)arg;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL); /* the agent blocks SIGTERM, which ends this process with it */
    setpriority(PRIO_PROCESS, 0, BACKGROUND);
    return setrlimit(RLIMIT_FSIZE, &bytes) < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0 ? -1 : 0;
}

static int start_curve(struct curve *c)
{
    char verb[] = "curves";
    char *argv[FIRST_ARG + N_ARGS + 1] = {c->all->exe, verb};
    const struct child_how how = {.argv = argv,
                                  .folder = "/",
                                  .out = c->out,
                                  .err = -1,
                                  .extra = c->fd > 0 ? c->fd : 0,
                                  .cpu_s = CPU_S,
                                  .memory_size = IS_SANITIZED ? 0 : MEMORY_BYTES,
                                  .confine = confine};

    for (int i = 0; i < N_ARGS; i++)
        argv[FIRST_ARG + i] = c->args[i];
    if (child_start(&c->child, &how, &c->why) < 0)
        return c->why.code;
    c->watch = (struct watch){.fd = c->child.fd, .ready = on_ended, .arg = c};
    c->is_running = true;
    if (loop_watch(c->all->loop, &c->watch, EPOLLIN, &c->why) == 0)
        return 0;
    end_process(c);
    return c->why.code;
}

static void start_next(struct curves *all)
{
    struct curve *waits = NULL;
    int n = 0;

    for (struct curve *c = all->first; c; c = c->next) {
        n += c->is_running;
        if (!c->is_running && !waits)
            waits = c;
    }
    if (waits && n < CURVES_AT_ONCE && start_curve(waits) < 0)
        finish_curve(waits);
}

static uint64_t file_bytes(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Returns the length of a recent document by its ETag; 0: unknown. */
static uint64_t known_length(const struct curves *all, const char *etag)
{
    for (size_t i = 0; i < CURVES_KNOWN; i++)
        if (strcmp(all->known[i].etag, etag) == 0)
            return all->known[i].bytes;
    return 0;
}

static void remember_length(struct curves *all, const char *etag, uint64_t bytes)
{
    size_t i = all->n_known++ % CURVES_KNOWN;

    memcpy(all->known[i].etag, etag, sizeof all->known[i].etag);
    all->known[i].bytes = bytes;
}

size_t curves_count(const struct curves *all)
{
    size_t n = 0;

    for (const struct curve *c = all->first; c; c = c->next)
        n++;
    return n;
}

static struct curve *curve_new(struct curves *all, const struct series_query *q, int fd, struct err *e)
{
    const char *const args[N_ARGS] = {q->file, q->names, q->x, q->points, q->from, q->to};
    struct curve *c = calloc(1, sizeof *c), **last = &all->first;

    if (!c) {
        err_set(e, ERR_NOMEM, "no memory for curves");
        return NULL;
    }
    c->out = file_make_in_memory("", 0, e);
    if (c->out < 0) {
        free(c);
        return NULL;
    }
    c->all = all;
    c->fd = fd;
    for (int i = 0; i < N_ARGS; i++)
        snprintf(c->args[i], sizeof c->args[i], "%s", args[i] ? args[i] : "");
    while (*last)
        last = &(*last)->next;
    *last = c;
    c->deadline = (struct timer){.due = on_deadline, .arg = c};
    timer_set(all->loop, &c->deadline, clock_now() + CURVE_S);
    return c;
}

static bool curve_is_ready(const struct agent *a, const struct api_response *rs)
{
    const struct curve *c = rs->awaited;

    (void)a;
    return c->is_done;
}

/* The document, or the problem; before the curve is ready, when the agent stops: that problem. */
static void respond_curves(struct agent *a, struct api_response *rs)
{
    struct curve *c = rs->awaited;
    struct curves *all = c->all;
    uint64_t bytes = file_bytes(c->out);
    struct err why = c->why; /* the curve is freed with the response that waited */
    char etag[sizeof rs->etag];
    int out = c->out;

    (void)a;
    if (!c->is_done) {
        respond_problem(rs, DRAINING, NULL, "%s is stopping", all->address);
    } else if (why.code == ERR_TIMEOUT) {
        respond_problem(rs, TIMED_OUT, "Ask for fewer names, or for a part: from=, to=.", "%s", why.text);
    } else if (why.code == ERR_PROTOCOL) {
        respond_problem(rs, WRONG_STATE, NULL, "the records cannot be read: %s", why.text);
    } else if (why.code) {
        respond_error(rs, &why);
    } else {
        remember_length(all, c->etag, bytes);
        memcpy(etag, c->etag, sizeof etag);
        c->out = -1;
        response_clear(rs);
        *rs = (struct api_response){
            .kind = RESPONSE_FILE, .type = "application/json", .fd = out, .bytes = bytes};
        memcpy(rs->etag, etag, sizeof etag);
    }
}

/* Ends its process, too. */
static void curve_free(void *awaited)
{
    struct curve *c = awaited;

    end_process(c);
    if (!c->is_done) {
        timer_cancel(c->all->loop, &c->deadline);
        unlink_curve(c);
        start_next(c->all);
    }
    if (c->fd >= 0)
        close(c->fd);
    if (c->out >= 0)
        close(c->out);
    free(c);
}

static const struct wait_kind wait_for_curve = {
    .is_over = curve_is_ready, .finish = respond_curves, .drop = curve_free};

void curve_ask(struct curves *all, const struct series_query *q, int fd, const char *more,
               const struct request *rq, struct api_response *rs)
{
    char etag[sizeof rs->etag];
    uint64_t bytes;
    struct curve *c = NULL;
    struct err e = {0};

    etag_make(etag, more, strlen(more));
    bytes = known_length(all, etag);
    if (bytes > 0 && etag_is_in(rq->if_none_match, etag)) {
        etag_unchanged(rs, etag, bytes);
    } else if (rq->method == METHOD_HEAD) {
        rs->type = "application/json";
        memcpy(rs->etag, etag, sizeof etag);
    } else if (curves_count(all) >= CURVES_AT_ONCE + CURVES_WAITING) {
        respond_problem(rs, OVERLOADED, NULL, "%d requests for curves wait already", CURVES_WAITING);
    } else if (!(c = curve_new(all, q, fd, &e))) {
        respond_error(rs, &e);
    } else {
        memcpy(c->etag, etag, sizeof etag);
        rs->kind = RESPONSE_WAIT;
        rs->wait = &wait_for_curve;
        rs->awaited = c;
        rs->deadline = HUGE_VAL;
        start_next(all);
    }
    if (!c && fd >= 0)
        close(fd);
}

bool curve_is_own(const void *curves, pid_t child)
{
    const struct curves *all = curves;

    for (const struct curve *c = all->first; c; c = c->next)
        if (c->is_running && c->child.pid == child)
            return true;
    return false;
}

/* From here on in the process: it reads rows that a codec's process may have written, and ends. */

static const char *argument(char **argv, int i)
{
    return argv[FIRST_ARG + i][0] ? argv[FIRST_ARG + i] : NULL;
}

static int make_curves(const struct series_query *q, struct err *e)
{
    struct series_request r;
    struct series *s = NULL;
    int rc = series_request_set(&r, q, e);

    if (rc == 0)
        rc = series_new(&s, &r, e);
    if (rc == 0 && fcntl(RECORDS_FD, F_GETFD) >= 0) /* else there are none yet */
        rc = series_read(s, RECORDS_FD, artifact_name((enum artifact_id)r.file), e);
    if (rc == 0)
        rc = series_write(stdout, s, e);
    if (rc == 0 && fflush(stdout) != 0)
        rc = err_errno(e, ERR_IO, "the document");
    series_free(s);
    return rc;
}

int curve_main(int argc, char **argv)
{
    struct err e = {0};
    struct series_query q;

    if (argc != FIRST_ARG + N_ARGS) {
        fputs("agent: `agent curves` is for the agent itself; agent --help lists what is for you\n", stderr);
        return 2;
    }
    prctl(PR_SET_NAME, "agent_curves"); /* else it is shown by the name of the link /proc/self/exe */
    q = (struct series_query){.file = argument(argv, 0),
                              .names = argument(argv, 1),
                              .x = argument(argv, 2),
                              .points = argument(argv, 3),
                              .from = argument(argv, 4),
                              .to = argument(argv, 5)};
    if (make_curves(&q, &e) == 0)
        return EXIT_SUCCESS;
    /* The error replaces the document, of which a part may be written. */
    if (ftruncate(STDOUT_FILENO, 0) == 0 && lseek(STDOUT_FILENO, 0, SEEK_SET) == 0)
        dprintf(STDOUT_FILENO, "%s", e.text);
    _exit(EXIT_FAILURE); /* without writing what stdio still holds */
}
