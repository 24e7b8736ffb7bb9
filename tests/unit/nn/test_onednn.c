#include "nn/kernels/onednn.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "nn/kernels/blas.h"
#include "nn/kernels/cpu.h"
#include "nn/kernels/matmul.h"
#include "nn/net.h"
#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "tests/unit/unit.h"

enum { M = 64, N = 128, K = 784 }; /* the first layer of mlp-tutorial, of a batch of 64 */

static const double wait_s = 60;

static volatile sig_atomic_t n_ticks, n_astray;
static uintptr_t stack_low, stack_high;

/* The address of its frame is the interrupted code's stack pointer. */
static void on_tick(int sig)
{
    uintptr_t at = (uintptr_t)__builtin_frame_address(0);

    (void)sig;
    n_ticks++;
    n_astray += at < stack_low || at >= stack_high;
}

static void find_stack(void)
{
    pthread_attr_t attr;
    void *low;
    size_t size;

    assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
    assert_int_equal(pthread_attr_getstack(&attr, &low, &size), 0);
    pthread_attr_destroy(&attr);
    stack_low = (uintptr_t)low;
    stack_high = stack_low + size;
}

static atomic_bool has_enough;

/* A timer's signals are the process's: while one thread blocks them, another takes them. */
static void *tick(void *computing)
{
    const struct timespec pause = {0, 500000};

    while (!has_enough) {
        nanosleep(&pause, NULL);
        pthread_kill(*(const pthread_t *)computing, SIGALRM);
    }
    return NULL;
}

static void fill_product(float **a, float **b, float **c)
{
    struct rng r;

    rng_init(&r, 1, 2, 3);
    *a = unit_normals(M * K, &r);
    *b = unit_normals(K * N, &r);
    *c = unit_normals(M * N, &r);
}

TEST(a_signal_interrupts_a_computing_thread_on_its_own_stack)
{
    const struct sigaction act = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    double until = clock_now() + wait_s;
    pthread_t self = pthread_self(), ticking;
    float *a, *b, *c;

    fill_product(&a, &b, &c);
    find_stack();
    blas_set_threads(1, 1);
    assert_int_equal(sigaction(SIGALRM, &act, NULL), 0);
    assert_int_equal(pthread_create(&ticking, NULL, tick, &self), 0);
    while (n_ticks < 100 && n_astray == 0 && clock_now() < until)
        matmul(false, false, M, N, K, a, b, 0, c);
    has_enough = true;
    pthread_join(ticking, NULL);
    assert_int_equal(n_astray, 0);
    assert_true(n_ticks >= 100);
    free(a);
    free(b);
    free(c);
}

/* Lists the threads of this process by id; returns how many. */
static size_t list_threads(pid_t *list, size_t most)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *entry;
    size_t n = 0;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL)
        if (entry->d_name[0] != '.') {
            assert_true(n < most);
            list[n++] = (pid_t)strtol(entry->d_name, NULL, 10);
        }
    closedir(d);
    return n;
}

static bool takes(pid_t thread, int sig)
{
    unsigned long long held = 0;
    char path[64], line[256];
    bool is_known = false;
    FILE *f;

    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)thread);
    f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        is_known = is_known || sscanf(line, "SigBlk: %llx", &held) == 1;
    fclose(f);
    assert_true(is_known);
    return !(held >> (sig - 1) & 1);
}

static void multiply(void)
{
    float *a, *b, *c;

    fill_product(&a, &b, &c);
    matmul(false, false, M, N, K, a, b, 0, c);
    free(a);
    free(b);
    free(c);
}

/* One step of a net with a convolution that oneDNN computes. */
static void convolve(void)
{
    static const char text[] =
        "{\"version\": 1, \"name\": \"conv\", \"input\": [32, 32, 3], \"layers\": [{\"kind\": \"conv2d\", "
        "\"filters\": 16, \"kernel\": [5, 5]}, {\"kind\": \"flatten\"}, {\"kind\": \"dense\", \"units\": "
        "4}], "
        "\"loss\": \"softmax_cross_entropy\"}";
    static const int32_t labels[] = {1, 3};
    struct net_score score = {0};
    struct model_spec spec;
    struct net *net;
    struct rng r;
    json_t *doc;
    struct err e;
    float *x;

    assert_ok(json_parse(&doc, text, strlen(text), "model", &e));
    assert_ok(model_spec_parse(&spec, doc, &e));
    json_decref(doc);
    assert_ok(net_new(&net, &spec, N_OF(labels), &e));
    model_spec_clear(&spec);
    rng_init(&r, 1, 2, 3);
    x = unit_normals(N_OF(labels) * 32 * 32 * 3, &r);
    net_train(net, &(struct net_batch){.x = x, .truth = {.labels = labels}, .n = N_OF(labels)}, &score);
    net_free(net);
    free(x);
}

TEST(threads_of_openblas_block_signals_and_the_caller_keeps_its_mask)
{
    pid_t threads[64];
    size_t n;

    if (blas_set_threads(2, 1) < 2)
        skip();
    n = list_threads(threads, N_OF(threads));
    for (size_t i = 0; i < n; i++)
        assert_int_equal(takes(threads[i], SIGALRM), threads[i] == getpid());
    blas_set_threads(1, 1);
}

TEST(threads_of_onednn_block_signals_and_the_caller_keeps_its_mask)
{
    static const int signals[] = {SIGALRM, SIGTERM, SIGINT, SIGPROF};
    void (*const work[])(void) = {convolve, multiply};
    pid_t before[64], after[64];
    size_t n_before, n_after;
    bool is_new = true;

    /* ThreadSanitizer does not understand how OpenMP's threads wait for each other. On other machines than
     * x86-64 oneDNN computes nothing. */
    if (IS_THREAD_SANITIZED || !CPU_IS_X86 || !blas_allows_onednn() || blas_set_threads(2, 1) < 2)
        skip();
    n_before = list_threads(before, N_OF(before));
    for (size_t w = 0; w < N_OF(work); w++) {
        work[w]();
        n_after = list_threads(after, N_OF(after));
        assert_true(n_after > n_before);
        for (size_t i = 0; i < n_after; i++) {
            is_new = true;
            for (size_t k = 0; k < n_before; k++)
                is_new = is_new && after[i] != before[k];
            for (size_t s = 0; s < N_OF(signals); s++) {
                if (is_new)
                    assert_false(takes(after[i], signals[s]));
                if (after[i] == getpid())
                    assert_true(takes(after[i], signals[s]));
            }
        }
    }
    blas_set_threads(1, 1);
}

static volatile sig_atomic_t has_come;

static void on_signal(int sig)
{
    (void)sig;
    has_come = 1;
}

TEST(a_blocked_signal_is_delivered_when_unblocked)
{
    const struct sigaction act = {.sa_handler = on_signal};
    sigset_t before;

    assert_int_equal(sigaction(SIGTERM, &act, NULL), 0);
    onednn_block_signals(&before);
    assert_int_equal(pthread_kill(pthread_self(), SIGTERM), 0);
    assert_false(has_come);
    onednn_restore_signals(&before);
    assert_true(has_come);
}

/* With OPENBLAS_NUM_THREADS=1, which agents set for their nodes, OpenBLAS starts no threads when it is
 * loaded, but later, in blas_set_threads(). */
static void start_with_one_thread(char **argv)
{
    const char *n = getenv("OPENBLAS_NUM_THREADS");

    if ((!n || strcmp(n, "1") != 0) && setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0)
        execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_blocked_signal_is_delivered_when_unblocked),
        cmocka_unit_test(threads_of_onednn_block_signals_and_the_caller_keeps_its_mask),
        cmocka_unit_test(threads_of_openblas_block_signals_and_the_caller_keeps_its_mask),
        cmocka_unit_test(a_signal_interrupts_a_computing_thread_on_its_own_stack),
    };

    (void)argc;
    start_with_one_thread(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
