#include "nn/kernels/parallel.h"

#include <sys/wait.h>

#include "nn/kernels/blas.h"
#include "nn/optimizer.h"
#include "tests/unit/unit.h"

enum { MOST = 1000 };

static void count_once(void *arg, size_t from, size_t to)
{
    unsigned char *counts = arg;

    for (size_t i = from; i < to; i++)
        counts[i]++;
}

static void assert_each_once(size_t n)
{
    unsigned char counts[MOST + 1] = {0};

    parallel_for(n, count_once, counts);
    for (size_t i = 0; i <= MOST; i++)
        assert_int_equal(counts[i], i < n);
}

/* blas_set_threads() gives at most the processors: on one, all is in one thread. */
TEST(every_iteration_is_handled_once_by_any_number_of_threads)
{
    for (int threads = 1; threads <= 4; threads++) {
        blas_set_threads(threads, 1);
        for (int round = 0; round < 50; round++)
            for (size_t n = 0; n <= MOST; n += n < 10 ? 1 : 495)
                assert_each_once(n);
    }
    blas_set_threads(1, 1);
}

/* As processes do that measure for the simulator. */
TEST(a_fork_handles_all_iterations_itself)
{
    int status;
    pid_t pid;

    blas_set_threads(2, 1);
    assert_each_once(MOST);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        unsigned char counts[MOST] = {0};

        parallel_for(MOST, count_once, counts);
        for (size_t i = 0; i < MOST; i++)
            if (counts[i] != 1)
                _exit(1);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_each_once(MOST);
    blas_set_threads(1, 1);
}

static void steps(float *w, double *norm, enum optimizer_kind kind, int threads)
{
    enum { ROWS = 130, COLS = 200, REST = 70001 };
    static const struct optimizer_part parts[] = {
        {.n = REST, .decays = true}, {.n = ROWS * COLS, .rows = ROWS, .cols = COLS}, {.n = REST}};
    const struct optimizer_config cfg = {
        .kind = kind, .momentum = 0.9f, .weight_decay = 0.1f, .parts = parts, .n_parts = 3};
    size_t n = 2 * REST + ROWS * COLS;
    float *g = malloc(n * sizeof *g);
    struct optimizer *o;
    struct err e;
    struct rng r;

    assert_non_null(g);
    rng_init(&r, 1, 2, 3);
    blas_set_threads(threads, 1);
    assert_ok(optimizer_new(&o, &cfg, n, &e));
    memset(w, 0, n * sizeof *w);
    for (int t = 0; t < 3; t++) {
        for (size_t i = 0; i < n; i++)
            g[i] = rng_normal(&r);
        *norm = optimizer_step(o, w, g, 0.01f, 1);
    }
    blas_set_threads(1, 1);
    optimizer_free(o);
    free(g);
}

TEST(a_step_of_every_optimizer_has_the_same_bits_for_every_number_of_threads)
{
    enum { COUNT = 2 * 70001 + 130 * 200 };
    float *a = malloc(COUNT * sizeof *a), *b = malloc(COUNT * sizeof *b);
    double x, y;

    for (enum optimizer_kind k = 0; k < N_OPTIMIZERS; k++) {
        steps(a, &x, k, 1);
        steps(b, &y, k, 2);
        assert_memory_equal(a, b, COUNT * sizeof *a);
        assert_true(x == y);
    }
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_iteration_is_handled_once_by_any_number_of_threads),
        cmocka_unit_test(a_fork_handles_all_iterations_itself),
        cmocka_unit_test(a_step_of_every_optimizer_has_the_same_bits_for_every_number_of_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
