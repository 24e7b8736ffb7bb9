/* faulty -- a training program that does in step 10 what its argument names, on every node or, with a second
 * argument, on that node alone.
 *
 *     faulty crash|close|flood|fork|ignore [NODE] */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/trainer/psgd_trainer.h"
#include "shared/trainer/trainer_command.h"

enum { N_PARAMS = 3, N_BATCHES = 50, AT_STEP = 10 };

static void crash(void)
{
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void close_socket(void)
{
    close(TRAINER_FD);
    for (;;)
        pause();
}

static void print_without_end(void)
{
    for (int i = 0; i < 100 << 10; i++)
        fprintf(stderr, "%1023d\n", i);
}

/* Two processes that outlive their parents, one of them in a session of its own. Their numbers are in the
 * log. */
static void leave_processes(void)
{
    int ready[2];
    char byte;

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

static void ignore_the_end(void)
{
    printf("left process %ld\n", (long)getpid());
    fflush(stdout);
    signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

static const struct {
    const char *name;
    void (*run)(void);
} faults[] = {{"crash", crash},
              {"close", close_socket},
              {"flood", print_without_end},
              {"fork", leave_processes},
              {"ignore", ignore_the_end}};

static void do_fault(const char *name)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (strcmp(faults[i].name, name) == 0)
            faults[i].run();
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
            do_fault(argv[1]);
        for (int k = 0; k < N_PARAMS; k++)
            g[k] = w[k] - 1;
        by = psgd_gradient(p, fabs((double)w[0] - 1), 8, 0.1);
        for (int k = 0; by && k < N_PARAMS; k++)
            w[k] -= 0.1f * by[k];
        psgd_stepped(p);
    }
    if (what < 0)
        fprintf(stderr, "%s\n", psgd_error());
    return psgd_close(p), what < 0;
}
