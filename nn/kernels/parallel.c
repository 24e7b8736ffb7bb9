#include "nn/kernels/parallel.h"

#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "nn/kernels/blas.h"
#include "nn/kernels/onednn.h"

enum { FEW_VALUES = 1 << 15 /* some operations on each take as long as waking a thread */ };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t begins, ends;
    pid_t pid;      /* of the process that has the threads: a fork has none. 0: none were started */
    int n_threads;  /* besides the calling one */
    unsigned round; /* number of the present loop */
    int n_parts, n_busy;
    size_t n;
    parallel_part *part;
    void *arg;
} pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .begins = PTHREAD_COND_INITIALIZER, .ends = PTHREAD_COND_INITIALIZER};

static void run_part(parallel_part *part, void *arg, size_t n, int k, int n_parts)
{
    size_t from = n * (size_t)k / (size_t)n_parts, to = n * ((size_t)k + 1) / (size_t)n_parts;

    if (from < to)
        part(arg, k, from, to);
}

/* Thread number k, from 1. It waits without holding a processor: between two loops may be a whole step. */
static void *run_thread(void *number)
{
    const int k = (int)(size_t)number;
    unsigned round = 0;

    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.round == round)
            pthread_cond_wait(&pool.begins, &pool.lock);
        round = pool.round;
        if (k >= pool.n_parts)
            continue;
        pthread_mutex_unlock(&pool.lock);
        run_part(pool.part, pool.arg, pool.n, k, pool.n_parts);
        pthread_mutex_lock(&pool.lock);
        if (--pool.n_busy == 0)
            pthread_cond_signal(&pool.ends);
    }
    return NULL;
}

/* They run no signal handlers, as those of the libraries (blas.h). */
static void start_threads(int n)
{
    sigset_t before;

    pool.pid = getpid();
    onednn_block_signals(&before);
    for (size_t k = 1; k <= (size_t)n; k++) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, run_thread, (void *)k) != 0)
            break;
        pthread_detach(thread);
        pool.n_threads++;
    }
    onednn_restore_signals(&before);
}

int parallel_parts(void)
{
    return blas_threads() < PARALLEL_MOST ? blas_threads() : PARALLEL_MOST;
}

/* Returns the number of threads for a loop, with the calling one. */
static int choose_threads(int most)
{
    int n = parallel_parts() < most ? parallel_parts() : most;

    if (n <= 1)
        return 1;
    if (pool.pid == 0)
        start_threads(parallel_parts() - 1);
    if (pool.pid != getpid())
        return 1;
    return n <= pool.n_threads ? n : pool.n_threads + 1;
}

void parallel_for(size_t n, int most, parallel_part *part, void *arg)
{
    int n_parts = n > 1 ? choose_threads(most) : 1;

    if (n_parts > 1) {
        pthread_mutex_lock(&pool.lock);
        pool.n = n;
        pool.part = part;
        pool.arg = arg;
        pool.n_parts = n_parts;
        pool.n_busy = n_parts - 1;
        pool.round++;
        pthread_cond_broadcast(&pool.begins);
        pthread_mutex_unlock(&pool.lock);
    }
    run_part(part, arg, n, 0, n_parts);
    if (n_parts == 1)
        return;
    pthread_mutex_lock(&pool.lock);
    while (pool.n_busy > 0)
        pthread_cond_wait(&pool.ends, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

void parallel_for_values(size_t n, size_t values, parallel_part *part, void *arg)
{
    parallel_for(n, values < FEW_VALUES ? 1 : PARALLEL_MOST, part, arg);
}
