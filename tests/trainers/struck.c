/* struck -- a training program that sends a signal to itself, or to another process of its node, before or
 * after a call by which it exchanges a record with psgd (trainer_wire.h).
 *
 *     struck FOLDER PROCESS SIGNAL MOMENT
 *
 * It does so in a job whose files are below FOLDER, so on one node: PROCESS is program, monitor or runner;
 * SIGNAL a number; MOMENT 2 n before the n-th call (from 0), 2 n + 1 after it; beyond all calls: none. It
 * does it once.
 * FOLDER.struck has then the time, as of CLOCK_REALTIME, the number of the process, and the steps done. At
 * its end the program prints the number of its moments. */
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shared/trainer/psgd_trainer.h"

enum { N_ROWS = 64, N_BATCHES = 4, N_WEIGHTS = 2 };

static const char *folder, *whom;
static int sent_signal;
static long moment, n_moments;
static unsigned long n_steps;

/* The process whose child `pid` is. */
static long parent_of(long pid)
{
    char path[64], text[512], *after_name;
    long parent = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    f = fopen(path, "r");
    if (!f)
        return 0;
    after_name = fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
    fclose(f);
    return after_name && sscanf(after_name, ") %*c %ld", &parent) == 1 ? parent : 0;
}

static void strike(void)
{
    long monitor = (long)getppid(), runner = parent_of(monitor), pid = (long)getpid();
    struct timespec now;
    char path[PATH_MAX];
    FILE *f;

    if (strcmp(whom, "monitor") == 0)
        pid = monitor;
    else if (strcmp(whom, "runner") == 0)
        pid = runner;
    snprintf(path, sizeof path, "%s.struck", folder);
    f = fopen(path, "w");
    if (!f)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(f, "%lld.%03ld %ld %lu\n", (long long)now.tv_sec, now.tv_nsec / 1000000, pid, n_steps);
    fclose(f);
    kill((pid_t)pid, sent_signal);
}

static bool is_here(void)
{
    char here[PATH_MAX];

    return getcwd(here, sizeof here) && strncmp(here, folder, strlen(folder)) == 0;
}

/* A job that is resumed has the same arguments. */
static bool has_struck(void)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s.struck", folder);
    return access(path, F_OK) == 0;
}

static void pass_moment(void)
{
    if (n_moments++ == moment && is_here() && !has_struck())
        strike();
}

/* In place of libc's, for psgd_trainer.c. */
ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    ssize_t n;

    pass_moment();
    n = syscall(SYS_sendmsg, fd, m, flags);
    pass_moment();
    return n;
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
    ssize_t n;

    pass_moment();
    n = syscall(SYS_recvmsg, fd, m, flags);
    pass_moment();
    return n;
}

static double error_of(const float *w, unsigned row)
{
    double a = (double)(row % 7) - 3, b = (double)(row % 5) - 2;

    return ((double)w[0] - 3) * a + ((double)w[1] + 2) * b;
}

static void save_or_restore(struct psgd *p, int what)
{
    char state[8] = "state";
    ssize_t n = what == PSGD_SAVE ? write(psgd_state_fd(p), state, sizeof state)
                                  : read(psgd_state_fd(p), state, sizeof state);

    if (n != (ssize_t)sizeof state)
        psgd_fail(p, "its state is not there");
}

static void take_step(struct psgd *p, const uint32_t *index, size_t n_index)
{
    const size_t n = n_index / N_BATCHES, first = psgd_plan(p)->step % N_BATCHES * n;
    float *w = psgd_params(p), *g = psgd_grads(p);
    const float *by;
    double loss = 0;

    memset(g, 0, N_WEIGHTS * sizeof *g);
    for (size_t i = first; i < first + n; i++) {
        double error = error_of(w, index[i]);

        loss += error * error / (double)n;
        g[0] += (float)(2 * error * ((double)(index[i] % 7) - 3) / (double)n);
        g[1] += (float)(2 * error * ((double)(index[i] % 5) - 2) / (double)n);
    }
    by = psgd_gradient(p, loss, n, 0.05);
    for (int k = 0; by && k < N_WEIGHTS; k++)
        w[k] -= 0.05f * by[k];
    psgd_stepped(p);
    n_steps++;
    psgd_log(p, "w", (double)w[0]);
}

int main(int argc, char **argv)
{
    static const struct psgd_tensor layout[] = {{"w", 1, {N_WEIGHTS}, false}};
    uint32_t *index = NULL;
    size_t n_index = 0;
    struct psgd *p;
    int what;

    if (argc != 5)
        return fprintf(stderr, "struck FOLDER PROCESS SIGNAL MOMENT\n"), 2;
    folder = argv[1];
    whom = argv[2];
    sent_signal = atoi(argv[3]);
    moment = atol(argv[4]);
    if (psgd_open(&p, layout, 1) < 0)
        return fprintf(stderr, "%s\n", psgd_error()), 1;
    psgd_shard(p, &(struct psgd_data){.n_rows = N_ROWS}, &index, &n_index);
    psgd_batches(p, N_BATCHES);
    while ((what = psgd_next(p)) > PSGD_STOP) {
        if (what == PSGD_GO)
            take_step(p, index, n_index);
        else if (what == PSGD_EVALUATE)
            psgd_evaluated(p, fabs(error_of(psgd_params(p), 1)), 0.5, 1);
        else
            save_or_restore(p, what);
    }
    if (what < 0)
        fprintf(stderr, "%s\n", psgd_error());
    psgd_close(p);
    free(index);
    printf("%ld moments\n", n_moments);
    return what < 0;
}
