#include "nn/kernels/parallel.h"

#include <sys/wait.h>

#include "nn/kernels/blas.h"
#include "nn/net.h"
#include "nn/optimizer.h"
#include "shared/base/json.h"
#include "shared/base/rng.h"
#include "tests/unit/unit.h"

enum { MOST = 1000 };

static void count_once(void *arg, int k, size_t from, size_t to)
{
    unsigned char *counts = arg;

    assert_true(k >= 0 && k < parallel_parts());
    for (size_t i = from; i < to; i++)
        counts[i]++;
}

static void assert_each_once(size_t n)
{
    unsigned char counts[MOST + 1] = {0};

    parallel_for(n, PARALLEL_MOST, count_once, counts);
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

        parallel_for(MOST, PARALLEL_MOST, count_once, counts);
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

static const char transformer[] =
    "{\"version\": 1, \"name\": \"t\", \"input\": [96], \"loss\": \"token_cross_entropy\", \"layers\": ["
    "{\"kind\": \"embedding\", \"vocab\": 20, \"units\": 16}, {\"kind\": \"residual\", \"layers\": ["
    "{\"kind\": \"layer_norm\"}, {\"kind\": \"attention\", \"heads\": 2, \"rope\": 10000, \"dropout\": "
    "0.1}]},"
    "{\"kind\": \"residual\", \"layers\": [{\"kind\": \"rms_norm\"},"
    "{\"kind\": \"dense\", \"positionwise\": true, \"units\": 32}, {\"kind\": \"gelu\"}, {\"kind\": "
    "\"swiglu\"}]},"
    "{\"kind\": \"dense\", \"positionwise\": true, \"units\": 20}]}";

enum { SAMPLES = 32, LENGTH = 96, WORDS = 20 };

static void open_transformer(struct net **net, struct model_spec *spec)
{
    json_t *doc;
    struct err e;

    if (json_parse(&doc, transformer, strlen(transformer), "t", &e) < 0 ||
        model_spec_parse(spec, doc, &e) < 0 || net_new(net, spec, SAMPLES, &e) < 0)
        fail_msg("%s", e.text);
    json_decref(doc);
    net_init(*net, 1);
}

/* Products keep one thread, because libraries sum in another order with several. Returns the gradients, to be
 * freed. */
static float *train_transformer(size_t *n, struct net_score *score, int threads)
{
    static float x[SAMPLES * LENGTH];
    static int32_t labels[SAMPLES * LENGTH];
    struct net *net;
    struct model_spec spec;
    struct rng r;
    float *grads;

    rng_init(&r, 1, 2, 3);
    for (size_t i = 0; i < (size_t)SAMPLES * LENGTH; i++) {
        x[i] = (float)rng_below(&r, WORDS);
        labels[i] = (int32_t)rng_below(&r, WORDS);
    }
    blas_set_threads(1, 1);
    blas_plan_threads(threads, 1);
    open_transformer(&net, &spec);
    *score = (struct net_score){0};
    *n = net_n_params(net);
    net_train(net, &(struct net_batch){.x = x, .truth = {.labels = labels}, .n = SAMPLES, .seed = 5}, score);
    grads = malloc(*n * sizeof *grads);
    assert_non_null(grads);
    memcpy(grads, net_grads(net), *n * sizeof *grads);
    net_free(net);
    model_spec_clear(&spec);
    return grads;
}

TEST(layers_and_losses_of_transformers_have_the_same_bits_for_every_number_of_threads)
{
    const bool had_onednn = blas_allows_onednn();
    struct net_score score, other;
    size_t n, m;
    float *one, *several;

    blas_allow_onednn(false);
    one = train_transformer(&n, &score, 1);
    for (int threads = 2; threads <= 3; threads++) {
        several = train_transformer(&m, &other, threads);
        assert_memory_equal(one, several, n * sizeof *one);
        assert_true(score.loss == other.loss && score.n_right == other.n_right);
        free(several);
    }
    free(one);
    blas_set_threads(1, 1);
    blas_allow_onednn(had_onednn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_iteration_is_handled_once_by_any_number_of_threads),
        cmocka_unit_test(a_fork_handles_all_iterations_itself),
        cmocka_unit_test(a_step_of_every_optimizer_has_the_same_bits_for_every_number_of_threads),
        cmocka_unit_test(layers_and_losses_of_transformers_have_the_same_bits_for_every_number_of_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
