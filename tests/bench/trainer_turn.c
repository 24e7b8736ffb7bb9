/* trainer_turn N_PARAMS N_STEPS [used] -- a training program that only takes its turns, for
 * tests/bench/trainer; used: and writes its gradient and updates its parameters, as a real one. The median
 * length of a turn, from GO to GO, in microseconds, is the metric turn_us; alone it is printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/trainer/psgd_trainer.h"
#include "tests/bench/bench.h"

enum { N_STEPS_MIN = 20, N_STEPS_MAX = 10000000 };

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* began (n): when each turn began. The first tenth is the start of a job. Orders the lengths in place. */
static double median_turn(double *began, size_t n)
{
    size_t from = n / 10, n_turns = n - from - 1;
    double *turns = began + from;

    for (size_t i = 0; i < n_turns; i++)
        turns[i] = turns[i + 1] - turns[i];
    qsort(turns, n_turns, sizeof *turns, by_size);
    return turns[n_turns / 2];
}

static void report_turn(struct psgd *p, double us)
{
    if (psgd_is_alone(p))
        printf("%.3f\n", us);
    else
        psgd_log(p, "turn_us", us);
}

/* An error of a call in here is one of psgd_next, too. */
static int take_turns(struct psgd *p, double *began, size_t n_steps, bool is_used)
{
    size_t n = psgd_n_params(p), n_done = 0;
    float *params = psgd_params(p), *grads = psgd_grads(p);
    const float *by;
    int what;

    for (size_t i = 0; i < n; i++) /* the norm of a gradient of zeros is computed twice */
        grads[i] = 1;
    while ((what = psgd_next(p)) > PSGD_STOP) {
        if (what != PSGD_GO)
            continue;
        began[n_done++] = now_us();
        for (size_t i = 0; is_used && i < n; i++)
            grads[i] = 1;
        by = psgd_gradient(p, 0, 1, 1);
        for (size_t i = 0; is_used && by && i < n; i++)
            params[i] -= by[i];
        if (n_done == n_steps)
            report_turn(p, median_turn(began, n_steps));
        psgd_stepped(p);
        if (n_done == n_steps)
            psgd_finish(p);
    }
    return what;
}

int main(int argc, char **argv)
{
    size_t n_params = argc > 2 ? strtoull(argv[1], NULL, 10) : 0;
    size_t n_steps = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    const struct psgd_tensor layout = {.name = "w", .n_dims = 1, .shape = {n_params}};
    struct psgd *p;
    double *began;
    int rc;

    if (n_params == 0 || n_steps < N_STEPS_MIN || n_steps > N_STEPS_MAX ||
        (argc > 3 && strcmp(argv[3], "used") != 0)) {
        fprintf(stderr, "usage: trainer_turn N_PARAMS N_STEPS [used], %d steps or more\n", N_STEPS_MIN);
        return EXIT_FAILURE;
    }
    began = calloc(n_steps, sizeof *began);
    if (!began || psgd_open(&p, &layout, 1) < 0) {
        fprintf(stderr, "trainer_turn: %s\n", began ? psgd_error() : "no memory for the times");
        free(began);
        return EXIT_FAILURE;
    }
    psgd_batches(p, n_steps);
    rc = take_turns(p, began, n_steps, argc > 3);
    if (rc < 0)
        fprintf(stderr, "trainer_turn: %s\n", psgd_error());
    psgd_close(p);
    free(began);
    return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
