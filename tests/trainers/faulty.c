/* faulty -- a training program that does in step 10 what its argument names, on every node or, with a second
 * argument, on that node alone.
 *
 *     faulty crash|close|flood|fork|ignore|sleep|nan|short|garbage|sequence|descriptors|linger [NODE]
 *
 * linger: it does not end after the job. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/trainer/psgd_trainer.h"
#include "shared/trainer/trainer_command.h"
#include "shared/trainer/trainer_wire.h"

enum { N_PARAMS = 3, N_BATCHES = 50, AT_STEP = 10 };

static void crash(struct psgd *p)
{
    (void)p;
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void close_socket(struct psgd *p)
{
    (void)p;
    close(TRAINER_FD);
    for (;;)
        pause();
}

static void print_without_end(struct psgd *p)
{
    (void)p;
    for (int i = 0; i < 100 << 10; i++)
        fprintf(stderr, "%1023d\n", i);
}

/* Two processes that outlive their parents, one of them in a session of its own. Their numbers are in the
 * log. */
static void leave_processes(struct psgd *p)
{
    int ready[2];
    char byte;

    (void)p;
    if (pipe(ready) < 0)
        exit(1);
    for (int i = 0; i < 2; i++) {
        if (fork() == 0) {
            if (i == 1)
                setsid();
            signal(SIGTERM, SIG_IGN);
            if (fork() > 0)
                _exit(0);
            printf("left process %ld\n", (long)getpid());
            fflush(stdout);
            if (write(ready[1], "", 1) == 1)
                for (;;)
                    pause();
        }
        if (read(ready[0], &byte, 1) != 1)
            exit(1);
    }
}

static void ignore_the_end(struct psgd *p)
{
    (void)p;
    printf("left process %ld\n", (long)getpid());
    fflush(stdout);
    signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

static void sleep_without_end(struct psgd *p)
{
    (void)p;
    for (;;)
        pause();
}

static bool lingers;

static void linger(struct psgd *p)
{
    (void)p;
    lingers = true;
}

static void lose_a_number(struct psgd *p)
{
    psgd_params(p)[1] = NAN;
}

/* Sends bytes of its own, and waits for what comes of it. */
static void send_bytes(struct psgd *p, const void *bytes, size_t len)
{
    if (send(TRAINER_FD, bytes, len, MSG_NOSIGNAL) == (ssize_t)len)
        sleep_without_end(p);
}

static void send_short(struct psgd *p)
{
    send_bytes(p, "psgd", 4);
}

static void send_garbage(struct psgd *p)
{
    char garbage[sizeof(struct trainer_record)];

    memset(garbage, 0x3e, sizeof garbage);
    send_bytes(p, garbage, sizeof garbage);
}

static const struct trainer_record late = {
    .kind = TRAINER_METRIC, .version = TRAINER_VERSION, .sequence = UINT64_MAX, .u.of.text = "loss"};

static void send_out_of_sequence(struct psgd *p)
{
    send_bytes(p, &late, sizeof late);
}

static void send_descriptors(struct psgd *p)
{
    enum { N = 8 };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(N * sizeof(int))];
    } control = {.head = {CMSG_LEN(N * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct trainer_record r = late;
    struct iovec v = {.iov_base = &r, .iov_len = sizeof r};
    const struct msghdr h = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};

    for (int i = 0; i < N; i++)
        memcpy(CMSG_DATA(&control.head) + (size_t)i * sizeof(int), &(int){STDERR_FILENO}, sizeof(int));
    if (sendmsg(TRAINER_FD, &h, MSG_NOSIGNAL) == (ssize_t)sizeof r)
        sleep_without_end(p);
}

static const struct {
    const char *name;
    void (*run)(struct psgd *p);
} faults[] = {{"crash", crash},
              {"close", close_socket},
              {"flood", print_without_end},
              {"fork", leave_processes},
              {"ignore", ignore_the_end},
              {"sleep", sleep_without_end},
              {"nan", lose_a_number},
              {"short", send_short},
              {"garbage", send_garbage},
              {"sequence", send_out_of_sequence},
              {"descriptors", send_descriptors},
              {"linger", linger}};

static void do_fault(struct psgd *p, const char *name)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (strcmp(faults[i].name, name) == 0)
            faults[i].run(p);
}

int main(int argc, char **argv)
{
    static const struct psgd_tensor layout[] = {{"w", 1, {N_PARAMS}, false}};
    struct psgd *p;
    int what;

    if (argc < 2 || psgd_open(&p, layout, 1) < 0)
        return fprintf(stderr, "%s\n", argc < 2 ? "faulty FAULT [NODE]" : psgd_error()), 1;
    psgd_batches(p, N_BATCHES);
    while ((what = psgd_next(p)) > PSGD_STOP) {
        const struct psgd_plan *plan = psgd_plan(p);
        float *w = psgd_params(p), *g = psgd_grads(p);
        const float *by;

        if (what != PSGD_GO)
            continue;
        if (plan->step == AT_STEP && !psgd_is_alone(p) && (argc < 3 || atoi(argv[2]) == plan->node))
            do_fault(p, argv[1]);
        for (int k = 0; k < N_PARAMS; k++)
            g[k] = w[k] - 1;
        by = psgd_gradient(p, fabs((double)w[0] - 1), 8, 0.1);
        for (int k = 0; by && k < N_PARAMS; k++)
            w[k] -= 0.1f * by[k];
        psgd_stepped(p);
    }
    if (lingers)
        sleep_without_end(p);
    if (what < 0)
        fprintf(stderr, "%s\n", psgd_error());
    return psgd_close(p), what < 0;
}
