#include "submit/files/spread.h"

#include <pthread.h>
#include <sched.h>

struct spread_part {
    void (*work)(void *arg, size_t k, size_t n);
    void *arg;
    size_t k, n;
};

static void *do_part(void *arg)
{
    const struct spread_part *p = arg;

    p->work(p->arg, p->k, p->n);
    return NULL;
}

static size_t n_parts(size_t most)
{
    cpu_set_t cpus;
    size_t n = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (size_t)CPU_COUNT(&cpus) : 1;

    n = n < most ? n : most;
    n = n < SPREAD_MAX ? n : SPREAD_MAX;
    return n > 1 ? n : 1;
}

void spread(size_t most, void (*work)(void *arg, size_t k, size_t n), void *arg)
{
    const size_t n = n_parts(most);
    struct spread_part parts[SPREAD_MAX];
    pthread_t threads[SPREAD_MAX];
    size_t n_threads = 1; /* the calling thread is the first */

    for (size_t k = 0; k < n; k++)
        parts[k] = (struct spread_part){work, arg, k, n};
    while (n_threads < n && pthread_create(&threads[n_threads], NULL, do_part, &parts[n_threads]) == 0)
        n_threads++;
    do_part(&parts[0]);
    for (size_t k = n_threads; k < n; k++) /* the parts that have no thread */
        do_part(&parts[k]);
    for (size_t k = 1; k < n_threads; k++)
        pthread_join(threads[k], NULL);
}
