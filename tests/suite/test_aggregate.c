/* Robust aggregates: compared with a second implementation of the formulas, and in jobs in which f
 * workers send contributions that distort the mean. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>

#include "runner/exchange/aggregators/aggregators.h"
#include "shared/base/rng.h"
#include "shared/plugin/combine_path.h"
#include "tests/lib/cluster.h"
#include "tests/lib/sim_job.h"

enum { N_MAX = 11, P = 29 };

static float vectors[N_MAX][P];
static const float *rows[N_MAX];
static double work[N_MAX * (N_MAX + 3)]; /* aggregate_work() */

static struct aggregate_input draw(int n, int f, uint64_t seed)
{
    struct rng r;

    rng_init(&r, seed, 0, 0);
    for (int k = 0; k < n; k++) {
        for (size_t i = 0; i < P; i++)
            vectors[k][i] = rng_normal(&r);
        rows[k] = vectors[k];
    }
    return (struct aggregate_input){.n = n, .f = f, .n_params = P, .v = rows, .work = work};
}

/* How many values of a component are less than x, and how many are greater. */
static void count(int *less, int *greater, const struct aggregate_input *in, size_t i, double x)
{
    *less = *greater = 0;
    for (int k = 0; k < in->n; k++) {
        *less += (double)in->v[k][i] < x;
        *greater += (double)in->v[k][i] > x;
    }
}

TEST(a_median_has_as_many_values_below_as_above)
{
    float out[P];

    for (int n = 1; n <= N_MAX; n++) {
        struct aggregate_input in = draw(n, 0, (uint64_t)n);

        aggregate_median(out, &in);
        for (size_t i = 0; i < P; i++) {
            int less, greater;

            count(&less, &greater, &in, i, (double)out[i]);
            assert_int_equal(less, greater);
            assert_int_equal(less, n % 2 == 0 ? n / 2 : (n - 1) / 2);
        }
    }
}

TEST(a_trimmed_mean_is_that_of_the_values_between)
{
    float out[P];

    for (int n = 3; n <= N_MAX; n++)
        for (int f = 1; 2 * f < n; f++) {
            struct aggregate_input in = draw(n, f, (uint64_t)n);

            aggregate_trimmed(out, &in);
            for (size_t i = 0; i < P; i++) {
                double sum = 0;

                for (int k = 0; k < n; k++) {
                    int less, greater;

                    count(&less, &greater, &in, i, (double)in.v[k][i]);
                    if (less >= f && greater >= f)
                        sum += (double)in.v[k][i];
                }
                assert_true(fabs((double)out[i] - sum / (n - 2 * f)) < 1e-6);
            }
        }
}

static double square_distance(const float *a, const float *b)
{
    double sum = 0;

    for (size_t i = 0; i < P; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sum;
}

/* The least sum over all subsets of n - f - 2 other vectors is that of the nearest ones. */
static double krum_score(const struct aggregate_input *in, int k)
{
    double least = INFINITY;

    for (unsigned subset = 0; subset < 1U << in->n; subset++) {
        double sum = 0;

        if (__builtin_popcount(subset) != in->n - in->f - 2 || (subset >> k & 1))
            continue;
        for (int j = 0; j < in->n; j++)
            sum += subset >> j & 1 ? square_distance(in->v[k], in->v[j]) : 0;
        least = fmin(least, sum);
    }
    return least;
}

TEST(krum_is_the_vector_nearest_to_its_neighbors)
{
    float out[P];

    for (int n = 5; n <= N_MAX; n++) {
        struct aggregate_input in = draw(n, (n - 3) / 2, (uint64_t)n);
        int best = 0;

        for (int k = 1; k < n; k++)
            if (krum_score(&in, k) < krum_score(&in, best))
                best = k;
        aggregate_krum(out, &in);
        assert_memory_equal(out, in.v[best], sizeof out);
    }
}

static double sum_of_distances(const struct aggregate_input *in, const float *z)
{
    double sum = 0;

    for (int k = 0; k < in->n; k++)
        sum += sqrt(square_distance(z, in->v[k]));
    return sum;
}

TEST(no_step_from_a_geometric_median_lessens_the_sum_of_distances)
{
    float out[P];

    for (int n = 1; n <= N_MAX; n++) {
        struct aggregate_input in = draw(n, 0, (uint64_t)n);
        double least;

        aggregate_geomedian(out, &in);
        least = sum_of_distances(&in, out);
        for (size_t i = 0; i < P; i++)
            for (int sign = -1; sign <= 1; sign += 2) {
                float kept = out[i];

                out[i] += 0.01F * (float)sign;
                assert_true(sum_of_distances(&in, out) > least - 1e-6);
                out[i] = kept;
            }
    }
}

TEST(values_that_are_no_numbers_are_outliers)
{
    float out[P];

    for (int kind = AGGREGATE_MEAN + 1; kind < AGGREGATE_KINDS; kind++)
        for (int bad = 0; bad < 3; bad++) {
            static const float values[] = {NAN, INFINITY, -INFINITY};
            struct aggregate_input in = draw(9, 2, 1);

            for (size_t i = 0; i < P; i++)
                vectors[3][i] = vectors[4][i] = values[bad];
            aggregate_of((enum aggregate_kind)kind, false)(out, &in);
            for (size_t i = 0; i < P; i++)
                assert_true(isfinite(out[i]));
        }
}

TEST(unknown_aggregates_and_too_few_contributions_are_refused)
{
    static const char *const bad[] = {
        "", "middle", "median:1", "trimmed", "trimmed:", "krum:0", "krum:x", "krum:1.5", "krum:-1", "mean:2"};
    static const struct {
        const char *text;
        int least;
    } good[] = {{"mean", 1}, {"median", 1}, {"trimmed:2", 5}, {"krum:2", 7}, {"geomedian", 1}};
    struct aggregate a;
    struct err e;

    for (size_t i = 0; i < N_OF(bad); i++)
        assert_int_equal(aggregate_parse(&a, bad[i], &e), ERR_CONFIG);
    for (size_t i = 0; i < N_OF(good); i++) {
        assert_int_equal(aggregate_parse(&a, good[i].text, &e), 0);
        assert_int_equal(aggregate_check(&a, good[i].least, &e), 0);
        assert_int_equal(aggregate_check(&a, good[i].least - 1, &e), ERR_CONFIG);
    }
}

/* ---- jobs with attackers ---- */

enum { WORKERS = 9, ATTACKERS = 2, STEPS = 200 };

enum attack { SIGN_FLIP, NOISE, ATTACKS };

static struct sim s;
static enum attack attack;

static float target(size_t i)
{
    return 1 + (float)(i % 5);
}

/* Honest workers differ little; the first ones attack. */
static int gradient(struct workload *load, const struct workload_batch *b, const float *params, float *grads,
                    struct net_score *score, struct err *e)
{
    struct rng r;

    (void)e;
    rng_init(&r, b->step, (uint64_t)b->node, 0);
    for (size_t i = 0; i < load->n_params; i++) {
        grads[i] = params[i] - target(i) + 0.05F * rng_normal(&r);
        if (b->node < ATTACKERS)
            grads[i] = attack == SIGN_FLIP ? -5 * grads[i] : 100 * rng_normal(&r);
    }
    score->n++;
    return 0;
}

/* The largest distance of a weight from its target after a job. */
static double miss(const char *codec, const char *aggregate, int n_servers)
{
    static struct workload_ops ops;
    struct settings set;
    struct simulation how;
    struct err e = {0};
    double most = 0;

    settings_default(&set);
    simulation_default(&how);
    snprintf(set.codec, sizeof set.codec, "%s", codec);
    memcpy(set.server_codec, set.codec, sizeof set.codec);
    snprintf(set.aggregate, sizeof set.aggregate, "%s", aggregate);
    set.node_count = WORKERS;
    set.server_count = n_servers;
    set.epochs = 1;
    set.steps_per_epoch = STEPS;
    set.local_steps = 2;
    set.learn_rate = 0.05;
    settings_set_optimizer(&set, OPTIMIZER_SGD);
    set.on_nonfinite = NONFINITE_SKIPS;
    how.gradients = P;
    strcpy(how.step_time, "0.01");
    strcpy(how.link, "100Mbit,1ms");
    sim_job_open(&s, &set, &how, codec);
    ops = *s.workload->ops;
    ops.gradient = gradient;
    s.workload->ops = &ops;
    assert_int_equal(sim_restart(&s, &e), 0);
    assert_int_equal(sim_run(&s, &e), 0);
    assert_true(sim_has_succeeded(&s) && sim_models_agree(&s));
    for (size_t i = 0; i < P; i++)
        most = fmax(most, fabs((double)(s.nodes[0].params[i] - target(i))));
    sim_close(&s);
    return most;
}

TEST(jobs_with_attackers_find_the_target_by_every_robust_aggregate_and_not_by_the_mean)
{
    static const char *const robust[] = {"median", "trimmed:2", "krum:2", "geomedian"};

    for (attack = SIGN_FLIP; attack < ATTACKS; attack++)
        for (int n_servers = 0; n_servers <= 2; n_servers++) {
            const char *codecs[] = {n_servers > 0 ? "doublesqueeze" : "plain", "fedavg", "diloco"};

            for (size_t c = 0; c < N_OF(codecs); c++) {
                assert_true(!(miss(codecs[c], "mean", n_servers) < 0.5));
                for (size_t k = 0; k < N_OF(robust); k++) {
                    double d = miss(codecs[c], robust[k], n_servers);

                    if (!(d < 0.25))
                        fail_msg("%s by %s, %d servers, attack %d: %g away", codecs[c], robust[k], n_servers,
                                 (int)attack, d);
                }
            }
        }
}

enum { N_SHOWN = 20, N_STATISTICS = 30, N_ALL = N_SHOWN + N_STATISTICS, N_VOTERS = 7 };

static int by_value(const void *a, const void *b)
{
    return *(const float *)a < *(const float *)b ? -1 : *(const float *)a > *(const float *)b;
}

/* What krum:2 chooses of v by distances over the first n values, in double precision. */
static int chosen(float v[N_VOTERS][N_ALL], size_t n)
{
    double least = INFINITY;
    int best = -1;

    for (int k = 0; k < N_VOTERS; k++) {
        float d[N_VOTERS];
        double score = 0;

        for (int j = 0; j < N_VOTERS; j++) {
            double sum = 0;

            for (size_t i = 0; i < n; i++)
                sum += ((double)v[k][i] - (double)v[j][i]) * ((double)v[k][i] - (double)v[j][i]);
            d[j] = (float)sum;
        }
        qsort(d, N_VOTERS, sizeof *d, by_value);
        for (int j = 1; j <= N_VOTERS - 2 - 2; j++)
            score += (double)d[j];
        if (score < least) {
            least = score;
            best = k;
        }
    }
    return best;
}

/* One round of fedavg after n_steps local steps, by a server or between workers. Returns whether the choice
 * depends on the statistics. */
static bool check_choice(uint64_t n_steps, int n_servers)
{
    struct cluster_config cfg = {.codec = "fedavg",
                                 .path = n_servers > 0 ? COMBINE_PATH_SERVERS : COMBINE_PATH_GATHER,
                                 .aggregate = {AGGREGATE_KRUM, 2},
                                 .n_workers = N_VOTERS,
                                 .n_servers = n_servers,
                                 .n_steps = n_steps,
                                 .local_steps = n_steps,
                                 .n_params = N_ALL,
                                 .n_statistics = N_STATISTICS};
    float v[N_VOTERS][N_ALL], middle[N_VOTERS];
    struct cluster c;
    int best;

    cluster_open(&c, &cfg);
    for (int k = 0; k < N_VOTERS; k++)
        for (size_t i = 0; i < N_ALL; i++) {
            v[k][i] = c.nodes[k].params[i];
            for (uint64_t t = 0; t < n_steps; t++)
                v[k][i] -= CLUSTER_LR * cluster_gradient(t, k, i);
        }
    assert_true(cluster_run(&c));
    best = chosen(v, N_SHOWN);
    for (size_t i = 0; i < N_ALL; i++) {
        for (int k = 0; k < N_VOTERS; k++)
            middle[k] = v[k][i];
        qsort(middle, N_VOTERS, sizeof *middle, by_value);
        assert_true(c.nodes[0].phase == NODE_DONE);
        assert_true(c.nodes[0].params[i] == (i < N_SHOWN ? v[best][i] : middle[N_VOTERS / 2]));
    }
    cluster_close(&c);
    return best != chosen(v, N_ALL);
}

TEST(krum_compares_no_running_statistics_which_get_the_median_of_each)
{
    int n = 0;

    for (uint64_t steps = 1; steps <= 8; steps++)
        n += check_choice(steps, 0) + check_choice(steps, 1);
    assert_true(n > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(krum_compares_no_running_statistics_which_get_the_median_of_each),
        cmocka_unit_test(a_median_has_as_many_values_below_as_above),
        cmocka_unit_test(a_trimmed_mean_is_that_of_the_values_between),
        cmocka_unit_test(krum_is_the_vector_nearest_to_its_neighbors),
        cmocka_unit_test(no_step_from_a_geometric_median_lessens_the_sum_of_distances),
        cmocka_unit_test(values_that_are_no_numbers_are_outliers),
        cmocka_unit_test(unknown_aggregates_and_too_few_contributions_are_refused),
        cmocka_unit_test(jobs_with_attackers_find_the_target_by_every_robust_aggregate_and_not_by_the_mean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
