/* A session goes from turn to turn: one of enum psgd_turn's. Each call first checks, by require_turn(), that
 * it belongs to the present one. Whatever psgd sends may have been written by a codec that misbehaves:
 * receive_record() and the functions that accept a record check it before anything of it is used. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* memfd_create, file seals, MSG_CMSG_CLOEXEC, environ */
#endif
#include "psgd_trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer_launch.h"
#include "trainer_wire.h"

_Static_assert((int)PSGD_DIMS == (int)TRAINER_DIMS && (int)PSGD_NAME == (int)TRAINER_TEXT,
               "a record holds each tensor of the interface");

enum { ERROR_TEXT = 640, METRIC_NAME_MAX = 64 };

enum psgd_turn {
    TURN_OPENED,     /* the program's, before READY */
    TURN_AWAITED,    /* psgd's */
    TURN_STEP,       /* the program's from here on: GO has come */
    TURN_UPDATE,     /* the gradient of this step was given */
    TURN_EVALUATION, /* EVALUATE has come */
    TURN_SAVE,
    TURN_RESTORE,
    TURN_STOPPED, /* the job has ended */
    TURN_FAILED   /* `error` says why */
};

/* Turns as sets. */
enum {
    IN_OPENED = 1 << TURN_OPENED,
    IN_AWAITED = 1 << TURN_AWAITED,
    IN_STEP = 1 << TURN_STEP,
    IN_UPDATE = 1 << TURN_UPDATE,
    IN_EVALUATION = 1 << TURN_EVALUATION,
    IN_STATE = 1 << TURN_SAVE | 1 << TURN_RESTORE,
    IN_PROGRAM = IN_OPENED | IN_STEP | IN_UPDATE | IN_EVALUATION | IN_STATE
};

struct psgd {
    struct psgd_plan plan;
    enum psgd_turn turn;
    pid_t process; /* that has opened it */
    pid_t beside;  /* psgd's process that this program has started; 0: none, or it has ended */
    int socket;    /* -1: alone */
    int state_fd;
    struct trainer_record *layout; /* OPEN, and a TENSOR for each tensor */
    size_t n_layout;
    uint64_t n_sent, n_received; /* records */

    size_t n_params, n_trained, n_bytes; /* n_bytes: of the memory */
    float *params, *grads, *combined;    /* (n_params), views into the memory; alone: combined is NULL */
    bool has_values, has_sent_values;    /* without values: it is only asked for its tensors */
    uint64_t n_batches;
    double lr_factor;            /* of the present step */
    bool knows_factor;           /* psgd_lr_factor was called in it */
    double accuracy;             /* of the present step; NAN: none */
    struct trainer_record given; /* GRADIENT of the present step, and then UPDATED */
    bool is_finished;            /* the program has no more data */
    bool has_told_finished;      /* to psgd, and the present step has no weight */

    bool has_job_failed;
    char why[TRAINER_REASON]; /* of REFUSED or STOP */
    char error[ERROR_TEXT];
};

struct incoming { /* a record of psgd's */
    struct trainer_record record;
    int fd; /* -1: none */
};

static _Thread_local char last_error[ERROR_TEXT] = "no call has failed";

const char *psgd_error(void)
{
    return last_error;
}

__attribute__((format(printf, 1, 2))) static int set_error(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(last_error, sizeof last_error, fmt, args);
    va_end(args);
    return -1;
}

/* A text for a record, cut before a character that does not fit. Returns its bytes. */
static size_t put_text(char out[TRAINER_TEXT], const char *text)
{
    size_t n = strnlen(text, TRAINER_TEXT);

    if (n == TRAINER_TEXT) {
        n--;
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--;
    }
    memcpy(out, text, n);
    out[n] = '\0';
    return n;
}

static ssize_t send_packet(struct psgd *p, struct trainer_record *r, int fd, int flags)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec v = {.iov_base = r, .iov_len = sizeof *r};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};
    ssize_t n;

    r->version = TRAINER_VERSION;
    r->sequence = p->n_sent;
    if (fd >= 0) {
        h.msg_control = control.room;
        h.msg_controllen = CMSG_LEN(sizeof fd);
        control.head.cmsg_len = CMSG_LEN(sizeof fd);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    do
        n = sendmsg(p->socket, &h, flags | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        p->n_sent++;
    return n;
}

static void send_failed(struct psgd *p, const char *why)
{
    bool goes_on = true;

    for (int part = 1; goes_on; part++) {
        struct trainer_record r = {.kind = TRAINER_FAILED};

        why += put_text(r.u.of.text, why);
        goes_on = *why && part < TRAINER_PARTS;
        r.flags = goes_on ? TRAINER_GOES_ON : 0;
        if (send_packet(p, &r, -1, MSG_DONTWAIT) < 0)
            return; /* psgd has ended, or hangs */
    }
}

static void give_up(struct psgd *p, const char *why)
{
    if (p->turn == TURN_STOPPED || p->turn == TURN_FAILED)
        return;
    snprintf(p->error, sizeof p->error, "%s", why);
    p->turn = TURN_FAILED;
    if (p->socket >= 0)
        send_failed(p, why);
}

/* Ends the session with an error, and tells psgd. */
__attribute__((format(printf, 2, 3))) static int fail_with(struct psgd *p, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(last_error, sizeof last_error, fmt, args);
    va_end(args);
    give_up(p, last_error);
    return -1;
}

static int report_end(const struct psgd *p)
{
    return set_error("the job has %s: %s", p->has_job_failed ? "failed" : "ended", p->why);
}

/* Does the call of `function` belong to the present turn? Otherwise *p fails. A forked child only gets a
 * sentence: the socket is its parent's. */
static int require_turn(struct psgd *p, const char *function, int turns)
{
    static const char *const when[] = {
        [TURN_OPENED] = "before the first psgd_next",
        [TURN_AWAITED] = "where psgd_next comes next: the call before it has answered psgd",
        [TURN_STEP] = "after PSGD_GO, where psgd_gradient (or psgd_stepped_by) comes next",
        [TURN_UPDATE] = "after psgd_gradient, where psgd_stepped comes next",
        [TURN_EVALUATION] = "after PSGD_EVALUATE, where psgd_evaluated or psgd_next comes next",
        [TURN_SAVE] = "after PSGD_SAVE, where psgd_next comes next",
        [TURN_RESTORE] = "after PSGD_RESTORE, where psgd_next comes next"};

    if (getpid() != p->process)
        return set_error("%s was called in a process that was forked after psgd_open: only process %ld, "
                         "which opened psgd, may call it",
                         function, (long)p->process);
    if (p->turn == TURN_FAILED)
        return set_error("%s", p->error);
    if (turns & 1 << p->turn)
        return 0;
    return p->turn == TURN_STOPPED ? report_end(p)
                                   : fail_with(p, "%s was called %s", function, when[p->turn]);
}

/* The first packet that waits, with a descriptor or -1. Returns as recvmsg. */
static ssize_t receive_packet(struct psgd *p, struct incoming *in, int flags)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec v = {.iov_base = &in->record, .iov_len = sizeof in->record};
    /* CMSG_LEN, and not CMSG_SPACE, which has room for two descriptors: the kernel closes all but one. */
    struct msghdr h = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = control.room,
                       .msg_controllen = CMSG_LEN(sizeof in->fd)};
    bool was_reset = false;
    ssize_t n;

    in->fd = -1;
    for (;;) {
        n = recvmsg(p->socket, &h, flags | MSG_CMSG_CLOEXEC);
        if (n >= 0)
            break;
        /* Linux reports once that psgd has ended with records of ours unread; its own still wait then. */
        if (errno != EINTR && (errno != ECONNRESET || was_reset))
            return n;
        was_reset = was_reset || errno == ECONNRESET;
    }
    if (CMSG_FIRSTHDR(&h) && control.head.cmsg_level == SOL_SOCKET && control.head.cmsg_type == SCM_RIGHTS &&
        control.head.cmsg_len == CMSG_LEN(sizeof in->fd))
        memcpy(&in->fd, CMSG_DATA(&control.head), sizeof in->fd);
    return h.msg_flags & MSG_TRUNC ? (ssize_t)sizeof in->record + 1 : n;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static bool has_text(uint32_t kind)
{
    return kind == TRAINER_REFUSED || kind == TRAINER_STOP;
}

static bool carries_fd(uint32_t kind)
{
    return kind == TRAINER_ACCEPTED || kind == TRAINER_SHARDED || kind == TRAINER_SAVE ||
           kind == TRAINER_RESTORE;
}

/* What is wrong with a packet of n bytes; NULL: nothing that all kinds of records have in common. */
static const char *fault_of(const struct psgd *p, const struct incoming *in, ssize_t n)
{
    const struct trainer_record *r = &in->record;

    if (n != (ssize_t)sizeof *r)
        return "a record of another size";
    if (r->version != TRAINER_VERSION)
        return "a record of another version: compile the program with the psgd_trainer.c of this psgd";
    if (r->sequence != p->n_received)
        return "a record out of sequence";
    if (has_text(r->kind) && !memchr(r->u.of.text, '\0', sizeof r->u.of.text))
        return "a text without an end";
    if (carries_fd(r->kind) && in->fd < 0)
        return "a record without its descriptor";
    if (!carries_fd(r->kind) && in->fd >= 0)
        return "a descriptor with a record that needs none";
    return NULL;
}

/* Appends a text of psgd's, which may be printed to a terminal. */
static void take_text(struct psgd *p, const struct trainer_record *r)
{
    size_t n = strlen(p->why);

    snprintf(p->why + n, sizeof p->why - n, "%s", r->u.of.text);
    for (char *c = p->why + n; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

static void take_stop(struct psgd *p, const struct trainer_record *r)
{
    bool is_described = p->turn == TURN_AWAITED && (r->flags & TRAINER_DESCRIBES);

    p->has_job_failed = r->flags & TRAINER_HAS_FAILED;
    p->turn = TURN_STOPPED;
    if (is_described && !p->has_job_failed)
        exit(EXIT_SUCCESS); /* job_submit has what it wants: the program's own loop would train for nothing */
}

static int report_lost(struct psgd *p, const char *separator, const char *why)
{
    int status;

    if (!p->beside)
        return fail_with(p, "psgd's process for this node has ended%s%s: see the node's log", separator, why);
    status = launch_wait(p->beside);
    p->beside = 0;
    if (status == 0 && p->turn == TURN_OPENED && !p->params) {
        fputs("psgd: this process was a parameter server of the job, which has ended\n", stderr);
        exit(EXIT_SUCCESS); /* a server trains nothing */
    }
    return fail_with(p,
                     "job_submit, which this program has started for its node, has ended with exit status "
                     "%d: it has said why",
                     status);
}

static int receive_one(struct psgd *p, struct incoming *in, int flags)
{
    ssize_t n = receive_packet(p, in, flags);
    const char *fault;

    if (n <= 0)
        return report_lost(p, n < 0 ? ", " : "", n < 0 ? strerror(errno) : "");
    fault = fault_of(p, in, n);
    if (fault) {
        close_fd(&in->fd);
        return fail_with(p, "psgd has sent %s", fault);
    }
    p->n_received++;
    return 0;
}

/* Takes the rest of a text: it has been sent at once, or psgd has ended. */
static int receive_rest(struct psgd *p, struct incoming *in)
{
    uint32_t kind = in->record.kind;

    p->why[0] = '\0';
    take_text(p, &in->record);
    while (in->record.flags & TRAINER_GOES_ON) {
        if (receive_one(p, in, 0) < 0)
            return -1;
        if (in->record.kind != kind) {
            close_fd(&in->fd);
            return fail_with(p, "psgd has sent a text without its end");
        }
        take_text(p, &in->record);
    }
    return 0;
}

/* Takes the next record of psgd's, for which it waits unless `flags` has MSG_DONTWAIT; of a REFUSED or a STOP
 * p->why is the text. PSGD_STOP: the job has ended; < 0: *p has failed; > PSGD_STOP: the caller uses the
 * record, or calls refuse_record. */
static int receive_record(struct psgd *p, struct incoming *in, int flags)
{
    if (receive_one(p, in, flags) < 0 || (has_text(in->record.kind) && receive_rest(p, in) < 0))
        return -1;
    if (in->record.kind != TRAINER_STOP)
        return PSGD_GO;
    take_stop(p, &in->record);
    return PSGD_STOP;
}

/* A record that is well-formed, but refuses the program's one or does not belong here. */
static int refuse_record(struct psgd *p, struct incoming *in, const char *wanted)
{
    close_fd(&in->fd);
    if (in->record.kind != TRAINER_REFUSED)
        return fail_with(p, "psgd has sent record %lu, and not %s", (unsigned long)in->record.kind, wanted);
    return fail_with(p, "psgd refuses the program: %s", p->why);
}

/* Alone: does nothing. */
static int send_record_with(struct psgd *p, struct trainer_record *r, int fd)
{
    struct incoming in;
    int rc;

    if (p->socket < 0 || send_packet(p, r, fd, 0) >= 0)
        return 0;
    if (errno != EPIPE && errno != ECONNRESET)
        return fail_with(p, "sending to psgd: %s", strerror(errno));
    /* psgd has ended. What it has sent before may say why. */
    while ((rc = receive_record(p, &in, MSG_DONTWAIT)) > PSGD_STOP) {
        if (in.record.kind == TRAINER_REFUSED)
            return refuse_record(p, &in, "");
        close_fd(&in.fd);
    }
    return rc < 0 ? rc : report_end(p);
}

static int send_record(struct psgd *p, struct trainer_record *r)
{
    return send_record_with(p, r, -1);
}

static int send_kind(struct psgd *p, enum trainer_kind kind)
{
    struct trainer_record r = {.kind = kind};

    return send_record(p, &r);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(struct psgd *p, const struct psgd_tensor *tensors, size_t n)
{
    const char **names = malloc(n * sizeof *names);
    int rc = 0;

    if (!names)
        return fail_with(p, "no memory for the names of %zu tensors", n);
    for (size_t i = 0; i < n; i++)
        names[i] = tensors[i].name;
    qsort(names, n, sizeof *names, compare_names);
    for (size_t i = 1; i < n && rc == 0; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            rc = fail_with(p, "two tensors have the name '%s': give each its own", names[i]);
    free(names);
    return rc;
}

/* The values of a tensor; 0: its shape is invalid, and *p has failed. */
static size_t count_values(struct psgd *p, const struct psgd_tensor *t)
{
    size_t n = 1;

    if (t->n_dims < 0 || t->n_dims > PSGD_DIMS) {
        fail_with(p, "tensor '%s' has %d dimensions: 0 to %d are possible", t->name, t->n_dims, PSGD_DIMS);
        return 0;
    }
    for (int i = 0; i < t->n_dims; i++) {
        if (t->shape[i] == 0 || t->shape[i] > SIZE_MAX / n) {
            fail_with(p, "tensor '%s' has the size %zu in dimension %d: it is 0, or too large", t->name,
                      t->shape[i], i);
            return 0;
        }
        n *= t->shape[i];
    }
    return n;
}

/* Bytes of one vector, for which `n_params` was checked. */
static size_t vector_bytes(const struct psgd *p)
{
    return p->n_params * sizeof *p->params;
}

static int measure_layout(struct psgd *p, const struct psgd_tensor *tensors, int n)
{
    const size_t most = PTRDIFF_MAX / sizeof *p->params / 4; /* three vectors, and their rounding to pages */

    if (n < 1 || n > TRAINER_TENSORS_MAX)
        return fail_with(p, "psgd_open got %d tensors: 1 to %d are possible", n, TRAINER_TENSORS_MAX);
    for (int i = 0; i < n; i++) {
        const struct psgd_tensor *t = &tensors[i];
        size_t n_values;

        if (!t->name || !t->name[0] || strnlen(t->name, PSGD_NAME) == PSGD_NAME)
            return fail_with(p, "tensor %d of psgd_open (from 0) has no name of 1 to %d bytes", i,
                             PSGD_NAME - 1);
        n_values = count_values(p, t);
        if (n_values == 0)
            return -1;
        if (n_values > most - p->n_params)
            return fail_with(p, "the tensors up to '%s' have more values than memory can hold", t->name);
        p->n_params += n_values;
        p->n_trained += t->is_statistic ? 0 : n_values;
    }
    if (p->n_trained == 0)
        return fail_with(p, "all tensors are statistics: at least one has to be trained");
    return check_names(p, tensors, (size_t)n);
}

/* Once there is memory, the new one takes its place. */
static int use_memory(struct psgd *p, size_t n_bytes, int flags, int fd)
{
    void *memory = mmap(p->params, n_bytes, PROT_READ | PROT_WRITE, flags | (p->params ? MAP_FIXED : 0), fd,
                        0);

    if (memory == MAP_FAILED)
        return fail_with(p, "no memory for %zu parameters (%zu bytes): %s", p->n_params, n_bytes,
                         strerror(errno));
    p->n_bytes = n_bytes;
    p->params = memory;
    return 0;
}

static int open_alone(struct psgd *p)
{
    size_t bytes = (vector_bytes(p) + TRAINER_PAGE - 1) / TRAINER_PAGE * TRAINER_PAGE;
    const char *of_launcher = launch_rank_variable();

    if (of_launcher)
        fprintf(stderr,
                "psgd: alone: %s is set, but no " LAUNCH_OPTIONS
                ": each process trains by itself, and exchanges nothing. " LAUNCH_OPTIONS
                "=\"--codec fedavg ...\", the options of job_submit, makes them one job\n",
                of_launcher);
    if (use_memory(p, 2 * bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1) < 0)
        return -1;
    p->grads = p->params + bytes / sizeof *p->params;
    p->plan = (struct psgd_plan){.n_nodes = 1, .seed = 1, .every = 1, .takes_part = true};
    return 0;
}

/* The socket in the environment. It is inherited without FD_CLOEXEC: a descriptor with it was taken before,
 * or belongs to something else. */
static int take_socket(struct psgd *p, const char *text)
{
    int kind = 0, flags;
    socklen_t len = sizeof kind;
    char *end;
    long fd;

    errno = 0;
    fd = strtol(text, &end, 10);
    if (errno == 0 && text[0] >= '0' && text[0] <= '9' && !*end && fd <= INT_MAX) {
        flags = fcntl((int)fd, F_GETFD);
        if (flags >= 0 && !(flags & FD_CLOEXEC) &&
            getsockopt((int)fd, SOL_SOCKET, SO_TYPE, &kind, &len) == 0 && kind == SOCK_SEQPACKET &&
            fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0) {
            p->socket = (int)fd;
            return 0;
        }
    }
    return fail_with(p,
                     TRAINER_ENV
                     "=%.20s is not the socket of a job: psgd_open is called once, in the process "
                     "that psgd has started; without this variable a program is alone",
                     text);
}

/* Under a launcher the program announces its tensors twice, and those of the caller may be gone then. */
static int copy_layout(struct psgd *p, const struct psgd_tensor *tensors, int n)
{
    p->layout = calloc((size_t)n + 1, sizeof *p->layout);
    if (!p->layout)
        return fail_with(p, "no memory for the names and shapes of %d tensors", n);
    p->n_layout = (size_t)n + 1;
    p->layout[0] = (struct trainer_record){.kind = TRAINER_OPEN, .n = (uint64_t)n};
    for (int i = 0; i < n; i++) {
        struct trainer_record *r = &p->layout[i + 1];

        r->kind = TRAINER_TENSOR;
        r->n_dims = tensors[i].n_dims;
        for (int k = 0; k < tensors[i].n_dims; k++)
            r->u.of.shape[k] = tensors[i].shape[k];
        put_text(r->u.of.text, tensors[i].name);
        r->flags = tensors[i].is_statistic ? TRAINER_STATISTIC : 0;
    }
    return 0;
}

/* Do the vectors lie in the memory, one behind the other? No sum is made of psgd's numbers. */
static bool are_apart(const struct psgd *p, const struct trainer_accepted *a)
{
    uint64_t bytes = vector_bytes(p);

    return a->grads_at % TRAINER_PAGE == 0 && a->combined_at % TRAINER_PAGE == 0 && a->grads_at >= bytes &&
           a->combined_at >= a->grads_at && a->combined_at - a->grads_at >= bytes &&
           a->bytes >= a->combined_at && a->bytes - a->combined_at >= bytes && a->bytes <= PTRDIFF_MAX;
}

static bool is_plan(const struct trainer_accepted *a)
{
    return a->n_nodes >= 1 && a->node >= 0 && a->node < a->n_nodes && a->every >= 1 &&
           (a->n_steps == 0 || a->n_done <= a->n_steps);
}

/* A file that was truncated after it was mapped would end the program by SIGBUS. */
static bool holds_bytes(int fd, uint64_t bytes)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 && st.st_size >= 0 &&
           (uint64_t)st.st_size >= bytes;
}

/* In bytes, of one of the vectors. */
static size_t offset_of(const struct psgd *p, const float *vector)
{
    return (size_t)(vector - p->params) * sizeof *vector;
}

static int accept_memory(struct psgd *p, const struct incoming *in)
{
    const struct trainer_accepted *a = &in->record.u.accepted;
    uint32_t flags = in->record.flags;

    if (a->n_params != p->n_params || a->n_trained != p->n_trained)
        return fail_with(p, "psgd has accepted %llu parameters (%llu trained), and the program has %zu (%zu)",
                         (unsigned long long)a->n_params, (unsigned long long)a->n_trained, p->n_params,
                         p->n_trained);
    if (!are_apart(p, a) || !holds_bytes(in->fd, a->bytes))
        return fail_with(p, "the memory that psgd has sent does not hold three vectors of %zu parameters",
                         p->n_params);
    if (!is_plan(a))
        return fail_with(p,
                         "psgd has sent an impossible plan: node %ld of %ld, %llu of %llu steps, an exchange "
                         "every %llu",
                         (long)a->node, (long)a->n_nodes, (unsigned long long)a->n_done,
                         (unsigned long long)a->n_steps, (unsigned long long)a->every);
    if (p->params && (a->bytes != p->n_bytes || a->grads_at != offset_of(p, p->grads) ||
                      a->combined_at != offset_of(p, p->combined)))
        return fail_with(p, "psgd's memory for the job is laid out otherwise than before the job");
    if (use_memory(p, (size_t)a->bytes, MAP_SHARED, in->fd) < 0)
        return -1;
    p->grads = p->params + a->grads_at / sizeof *p->params;
    p->combined = p->params + a->combined_at / sizeof *p->params;
    p->has_values = !(flags & TRAINER_DESCRIBES);
    p->plan = (struct psgd_plan){.node = a->node,
                                 .n_nodes = a->n_nodes,
                                 .seed = a->seed,
                                 .step = a->n_done,
                                 .n_steps = a->n_steps,
                                 .every = a->every,
                                 .takes_gradients = flags & TRAINER_TAKES_GRADIENTS,
                                 .takes_part = true};
    return 0;
}

static int open_in_job(struct psgd *p)
{
    struct incoming in;
    int rc = 0;

    for (size_t i = 0; i < p->n_layout && rc == 0; i++)
        rc = send_record(p, &p->layout[i]);
    if (rc == 0)
        rc = receive_record(p, &in, 0);
    if (rc < 0)
        return rc;
    if (rc == PSGD_STOP)
        return report_end(p);
    if (in.record.kind != TRAINER_ACCEPTED)
        return refuse_record(p, &in, "whether it accepts the tensors");
    rc = accept_memory(p, &in);
    close_fd(&in.fd);
    return rc;
}

/* Of a launcher. Its node's process is waited for, however the program ends. */
static struct psgd *session;

static void close_session(void)
{
    if (!session)
        return;
    if (session->process == getpid())
        give_up(session, "the program has ended, and the job has not");
    psgd_close(session);
}

static int start_node(struct psgd *p)
{
    static bool is_registered;
    char why[LAUNCH_TEXT];

    if (session)
        return fail_with(p, "psgd_open is called once in a process");
    if (!is_registered && atexit(close_session) != 0)
        return fail_with(p, "no memory for a function that is called at the program's end");
    is_registered = true;
    p->beside = launch_start(&p->socket, why);
    if (p->beside < 0) {
        p->beside = 0;
        return fail_with(p, "%s", why);
    }
    session = p;
    return 0;
}

/* Without psgd at the other end of a socket the program is alone. */
static int find_psgd(struct psgd *p)
{
    const char *text = getenv(TRAINER_ENV);

    if (text && text[0])
        return take_socket(p, text);
    return launch_is_wanted() ? start_node(p) : 0;
}

int psgd_open(struct psgd **out, const struct psgd_tensor *tensors, int n)
{
    struct psgd *p = calloc(1, sizeof *p);

    *out = NULL;
    if (!p)
        return set_error("no memory for psgd_open");
    p->process = getpid();
    p->socket = p->state_fd = -1;
    p->accuracy = NAN;
    p->lr_factor = 1;
    if (find_psgd(p) == 0 && measure_layout(p, tensors, n) == 0 && copy_layout(p, tensors, n) == 0 &&
        (p->socket < 0 ? open_alone(p) : open_in_job(p)) == 0) {
        *out = p;
        return 0;
    }
    psgd_close(p);
    return -1;
}

void psgd_close(struct psgd *p)
{
    if (!p)
        return;
    if (p->process == getpid())
        give_up(p, "the program called psgd_close before the job's end");
    close_fd(&p->socket);
    close_fd(&p->state_fd);
    if (p->beside && p->process == getpid())
        launch_wait(p->beside);
    if (p == session)
        session = NULL;
    if (p->params)
        munmap(p->params, p->n_bytes);
    free(p->layout);
    free(p);
}

bool psgd_is_alone(const struct psgd *p)
{
    return p->socket < 0;
}

const struct psgd_plan *psgd_plan(const struct psgd *p)
{
    return &p->plan;
}

size_t psgd_n_params(const struct psgd *p)
{
    return p->n_params;
}

float *psgd_params(struct psgd *p)
{
    return p->params;
}

float *psgd_grads(struct psgd *p)
{
    return p->grads;
}

bool psgd_has_values(const struct psgd *p)
{
    return p->has_values;
}

void psgd_batches(struct psgd *p, uint64_t n)
{
    p->n_batches = n;
}

const char *psgd_why(const struct psgd *p)
{
    return p->why;
}

int psgd_state_fd(const struct psgd *p)
{
    return p->state_fd;
}

void psgd_accuracy(struct psgd *p, double accuracy)
{
    p->accuracy = accuracy;
}

void psgd_fail(struct psgd *p, const char *why)
{
    if (p->process == getpid())
        give_up(p, why);
}

static int send_values(struct psgd *p)
{
    int rc = p->has_sent_values ? 0 : send_kind(p, TRAINER_VALUES);

    p->has_sent_values = true;
    return rc;
}

/* Answers psgd's last record, for a program that has nothing more to say to it. */
static int answer_turn(struct psgd *p)
{
    struct trainer_record ready = {.kind = TRAINER_READY, .n = p->n_batches};

    switch (p->turn) {
    case TURN_OPENED:
        return send_values(p) < 0 ? -1 : send_record(p, &ready);
    case TURN_EVALUATION:
        return psgd_evaluated(p, NAN, NAN, 0);
    case TURN_SAVE:
        close_fd(&p->state_fd);
        return send_kind(p, TRAINER_SAVED);
    case TURN_RESTORE:
        close_fd(&p->state_fd);
        return send_kind(p, TRAINER_RESTORED);
    case TURN_STEP:
        return p->socket < 0 ? 0 : send_kind(p, TRAINER_UPDATED);
    default:
        return 0;
    }
}

/* The job is packed, by what this program has said of its tensors. Now its node is at the other end. */
static int begin_again(struct psgd *p, struct incoming *in)
{
    if (p->has_values)
        return refuse_record(p, in, "what comes next");
    p->n_sent = p->n_received = 0;
    p->has_sent_values = false;
    if (open_in_job(p) < 0)
        return -1;
    p->turn = TURN_OPENED;
    if (answer_turn(p) < 0)
        return -1;
    p->turn = TURN_AWAITED;
    return 0;
}

static int take_state_file(struct psgd *p, struct incoming *in)
{
    struct stat st;

    if (fstat(in->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close_fd(&in->fd);
        return fail_with(p, "psgd has sent something that is no file for the program's state");
    }
    p->state_fd = in->fd;
    return 0;
}

static int take_lr_factor(struct psgd *p, const struct trainer_record *r)
{
    p->lr_factor = r->lr;
    p->knows_factor = false;
    return isfinite(r->lr) ? 0
                           : fail_with(p, "psgd has sent a factor on the learning rate that is no number");
}

/* In a step. */
static int tell_finished(struct psgd *p)
{
    int rc = p->has_told_finished || p->socket < 0 ? 0 : send_kind(p, TRAINER_FINISHED);

    p->has_told_finished = true;
    p->plan.takes_part = false;
    return rc;
}

/* Returns what the program does next; PSGD_STOP: nothing, the library has answered. */
static int take_turn(struct psgd *p, struct incoming *in)
{
    static const struct {
        uint32_t kind;
        int what;
        enum psgd_turn turn;
    } turns[] = {{TRAINER_GO, PSGD_GO, TURN_STEP},
                 {TRAINER_EVALUATE, PSGD_EVALUATE, TURN_EVALUATION},
                 {TRAINER_SAVE, PSGD_SAVE, TURN_SAVE},
                 {TRAINER_RESTORE, PSGD_RESTORE, TURN_RESTORE}};
    const struct trainer_record *r = &in->record;
    size_t i = 0;

    if (r->kind == TRAINER_STORE) /* params are the program's own vector */
        return send_kind(p, TRAINER_STORED);
    if (r->kind == TRAINER_AGAIN)
        return begin_again(p, in);
    while (i < sizeof turns / sizeof turns[0] && turns[i].kind != r->kind)
        i++;
    if (i == sizeof turns / sizeof turns[0])
        return refuse_record(p, in, "what comes next");
    if (in->fd >= 0 && take_state_file(p, in) < 0)
        return -1;
    if (r->kind == TRAINER_GO || r->kind == TRAINER_EVALUATE) {
        /* A program may have a table of n_steps learning rates. */
        if (p->plan.n_steps > 0 && r->step > p->plan.n_steps - (r->kind == TRAINER_GO))
            return fail_with(p, "psgd continues after %llu steps a job of %llu", (unsigned long long)r->step,
                             (unsigned long long)p->plan.n_steps);
        p->plan.step = r->step;
    }
    p->plan.has_changed = r->flags & TRAINER_HAS_CHANGED;
    if (r->kind == TRAINER_GO) {
        p->plan.takes_part = r->flags & TRAINER_TAKES_PART;
        if (take_lr_factor(p, r) < 0 || (p->is_finished && tell_finished(p) < 0))
            return -1;
        if (p->is_finished && !p->plan.takes_gradients)
            return send_kind(p, TRAINER_UPDATED);
    }
    p->turn = turns[i].turn;
    return turns[i].what;
}

static int next_alone(struct psgd *p)
{
    if (!p->is_finished) {
        p->turn = TURN_STEP;
        return PSGD_GO;
    }
    snprintf(p->why, sizeof p->why, "the program has no more data");
    p->turn = TURN_STOPPED;
    return PSGD_STOP;
}

int psgd_next(struct psgd *p)
{
    const int turns = IN_OPENED | IN_AWAITED | IN_EVALUATION | IN_STATE | 1 << TURN_STOPPED;
    bool may_leave = p->is_finished && (!p->plan.takes_gradients || p->socket < 0);
    struct incoming in;
    int rc;

    if (require_turn(p, "psgd_next", p->is_finished ? turns | IN_STEP : turns) < 0)
        return -1;
    if (p->turn == TURN_STEP && !may_leave)
        return fail_with(p, "psgd_next came in a step after psgd_finish: the rule takes gradients, so call "
                            "psgd_gradient with 0 samples, and psgd_stepped");
    if (p->turn != TURN_STOPPED) {
        rc = answer_turn(p);
        if (rc == 0 && p->socket < 0)
            return next_alone(p);
        if (rc == 0)
            p->turn = TURN_AWAITED;
        while (rc == 0 && p->turn == TURN_AWAITED) {
            rc = receive_record(p, &in, 0);
            if (rc > PSGD_STOP)
                rc = take_turn(p, &in);
        }
        if (p->turn != TURN_STOPPED)
            return rc;
    }
    return p->has_job_failed ? report_end(p) : PSGD_STOP;
}

static void note_score(struct psgd *p, double loss, size_t samples, double lr)
{
    p->given = (struct trainer_record){.kind = TRAINER_GRADIENT,
                                       .step = p->plan.step,
                                       .n = p->has_told_finished ? 0 : samples,
                                       .loss = loss,
                                       .accuracy = p->accuracy,
                                       .lr = lr};
}

/* Waits for the gradient of the update. */
static const float *exchange_gradient(struct psgd *p)
{
    struct incoming in;
    int rc = send_record(p, &p->given);

    if (rc == 0)
        rc = receive_record(p, &in, 0);
    if (rc == PSGD_STOP)
        report_end(p);
    else if (rc > PSGD_STOP && in.record.kind != TRAINER_UPDATE)
        rc = refuse_record(p, &in, "the gradient of the update");
    if (rc <= PSGD_STOP || take_lr_factor(p, &in.record) < 0)
        return NULL;
    p->plan.has_changed = in.record.flags & TRAINER_HAS_CHANGED;
    return in.record.flags & TRAINER_COMBINED ? p->combined : p->grads;
}

const float *psgd_gradient(struct psgd *p, double loss, size_t samples, double lr)
{
    const float *by;

    if (require_turn(p, "psgd_gradient", IN_STEP) < 0)
        return NULL;
    note_score(p, loss, samples, lr);
    by = p->plan.takes_gradients ? exchange_gradient(p) : p->grads;
    if (by)
        p->turn = TURN_UPDATE;
    return by;
}

double psgd_lr_factor(struct psgd *p)
{
    p->knows_factor = true;
    return p->lr_factor;
}

static int end_step(struct psgd *p)
{
    if (p->lr_factor != 1 && !p->knows_factor)
        return fail_with(p,
                         "the job's rule changes the learning rate, here by %g: multiply that of each update "
                         "by psgd_lr_factor()",
                         p->lr_factor);
    p->given.kind = TRAINER_UPDATED;
    if (send_record(p, &p->given) < 0)
        return -1;
    p->accuracy = NAN;
    p->plan.step++;
    p->turn = TURN_AWAITED;
    return 0;
}

int psgd_stepped(struct psgd *p)
{
    return require_turn(p, "psgd_stepped", IN_UPDATE) < 0 ? -1 : end_step(p);
}

int psgd_stepped_by(struct psgd *p, double loss, size_t samples, double lr)
{
    if (require_turn(p, "psgd_stepped_by", IN_STEP) < 0)
        return -1;
    if (p->plan.takes_gradients)
        return fail_with(p,
                         "the job's rule combines or changes gradients, and psgd_stepped_by has none: call "
                         "psgd_gradient before the update, and psgd_stepped after it");
    note_score(p, loss, samples, lr);
    return end_step(p);
}

int psgd_finish(struct psgd *p)
{
    if (require_turn(p, "psgd_finish", IN_PROGRAM | IN_AWAITED) < 0)
        return -1;
    p->is_finished = true;
    return p->turn == TURN_STEP ? tell_finished(p) : 0;
}

int psgd_evaluated(struct psgd *p, double loss, double accuracy, size_t samples)
{
    struct trainer_record r = {
        .kind = TRAINER_EVALUATED, .step = p->plan.step, .n = samples, .loss = loss, .accuracy = accuracy};

    if (require_turn(p, "psgd_evaluated", IN_EVALUATION) < 0 || send_record(p, &r) < 0)
        return -1;
    p->turn = TURN_AWAITED;
    return 0;
}

static bool is_metric_name(const char *name)
{
    size_t n = strlen(name);

    return n >= 1 && n <= METRIC_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%-") == n;
}

int psgd_log(struct psgd *p, const char *name, double value)
{
    struct trainer_record r = {.kind = TRAINER_METRIC, .step = p->plan.step, .loss = value};

    if (require_turn(p, "psgd_log", IN_PROGRAM | IN_AWAITED) < 0)
        return -1;
    if (!is_metric_name(name))
        return fail_with(p, "psgd_log got the name '%.80s': a name is 1 to %d of a-z, A-Z, 0-9 and _./:@%%-",
                         name, METRIC_NAME_MAX);
    put_text(r.u.of.text, name);
    return send_record(p, &r);
}

/* A sealed file in memory; < 0: *p has failed. */
static int make_labels(struct psgd *p, const int32_t *labels, size_t n)
{
    int fd = memfd_create("psgd-labels", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const unsigned char *at = (const void *)labels;
    size_t left = n * sizeof *labels;
    ssize_t written = 0;

    while (fd >= 0 && left > 0) {
        written = write(fd, at, left);
        if (written < 0 && errno != EINTR)
            break;
        at += written > 0 ? written : 0;
        left -= written > 0 ? (size_t)written : 0;
    }
    if (fd >= 0 && left == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0)
        return fd;
    fail_with(p, "no memory for a copy of %zu labels: %s", n, strerror(errno));
    close_fd(&fd);
    return -1;
}

static bool read_whole(int fd, void *out, size_t n_bytes)
{
    size_t n_read = 0;

    while (n_read < n_bytes) {
        ssize_t n = pread(fd, (unsigned char *)out + n_read, n_bytes - n_read, (off_t)n_read);

        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        n_read += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Copies the indices of SHARDED, because psgd could change its file after they were checked. The program uses
 * them for its own arrays: each must be less than n_rows. */
static uint32_t *copy_rows(struct psgd *p, const struct incoming *in, size_t n_rows)
{
    size_t n = (size_t)in->record.n;
    struct stat st;
    uint32_t *rows;

    if (in->record.n > n_rows || fstat(in->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        fail_with(p, "psgd has sent a shard that is no file, or has more than its %zu rows", n_rows);
        return NULL;
    }
    rows = malloc((n + 1) * sizeof *rows);
    if (!rows) {
        fail_with(p, "no memory for a shard of %zu rows", n);
        return NULL;
    }
    if (!read_whole(in->fd, rows, n * sizeof *rows)) {
        fail_with(p, "psgd has sent a shard that is shorter than its %zu rows", n);
        goto bad;
    }
    for (size_t i = 0; i < n; i++)
        if (rows[i] >= n_rows) {
            fail_with(p, "psgd has sent a shard with row %lu of %zu rows", (unsigned long)rows[i], n_rows);
            goto bad;
        }
    return rows;
bad:
    free(rows);
    return NULL;
}

static uint32_t *all_rows(struct psgd *p, size_t n)
{
    uint32_t *rows = malloc(n * sizeof *rows);

    if (!rows)
        fail_with(p, "no memory for the numbers of %zu rows", n);
    for (size_t i = 0; rows && i < n; i++)
        rows[i] = (uint32_t)i;
    return rows;
}

/* NULL: an error, or the job has ended. */
static uint32_t *request_shard(struct psgd *p, const struct psgd_data *data, size_t *n_index)
{
    const int32_t *labels = data->labels;
    struct trainer_record r = {.kind = TRAINER_SHARD,
                               .n = data->n_rows,
                               .step = data->epoch,
                               .flags = labels ? TRAINER_HAS_LABELS : 0,
                               .n_dims = data->batch > 0,
                               .u.of.shape = {data->batch}};
    struct incoming in;
    uint32_t *rows;
    int rc, fd = -1;

    if (send_values(p) < 0 || (labels && (fd = make_labels(p, labels, data->n_rows)) < 0))
        return NULL;
    rc = send_record_with(p, &r, fd);
    close_fd(&fd);
    if (rc == 0)
        rc = receive_record(p, &in, 0);
    if (rc == PSGD_STOP)
        report_end(p);
    else if (rc > PSGD_STOP && in.record.kind != TRAINER_SHARDED)
        rc = refuse_record(p, &in, "the shard");
    if (rc <= PSGD_STOP)
        return NULL;
    rows = copy_rows(p, &in, data->n_rows);
    close_fd(&in.fd);
    *n_index = (size_t)in.record.n;
    return rows;
}

int psgd_shard(struct psgd *p, const struct psgd_data *data, uint32_t **index, size_t *n_index)
{
    const size_t most = PTRDIFF_MAX / 8 < UINT32_MAX ? PTRDIFF_MAX / 8 : UINT32_MAX, n = data->n_rows;

    if (require_turn(p, "psgd_shard", IN_PROGRAM) < 0)
        return -1;
    if (n < 1 || n > most)
        return fail_with(p, "psgd_shard got %zu rows: 1 to %zu are possible", n, most);
    *n_index = n;
    *index = psgd_is_alone(p) ? all_rows(p, n) : request_shard(p, data, n_index);
    return *index ? 0 : -1;
}
