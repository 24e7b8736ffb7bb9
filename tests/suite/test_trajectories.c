/* Trajectories of the rules that combine: simulated jobs by every path, compared with the formulas of the
 * papers in double, which share no code with psgd. The paths must agree, too: to the bit between workers, and
 * with the formulas within fp32's rounding. */
#include "tests/unit/unit.h"

#include <math.h>

#include "shared/plugin/combine_path.h"
#include "tests/lib/sim_job.h"

enum { P = 37, N_MAX = 8, STEPS = 22, EVERY = 4 };

static const double lr = 0.02, decay = 0.01;

/* ---- the same gradients, in float and in double ---- */

static double target(int k, size_t i)
{
    return (i % 2 == 0 ? 1 : -1) * (8 + sin(7.0 * k + 3.0 * (double)i)); /* no sign changes on the way */
}

static double steepness(int k, size_t i)
{
    return 1 + 0.5 * cos(5.0 * k + 2.0 * (double)i);
}

static bool has_computed[STEPS][N_MAX]; /* in the last simulation */

static void begin(struct workload *load, float *params)
{
    (void)load;
    for (size_t i = 0; i < P; i++)
        params[i] = (float)i / 1024;
}

static int gradient(struct workload *load, const struct workload_batch *b, const float *params, float *grads,
                    struct net_score *score, struct err *e)
{
    (void)load, (void)e;
    for (size_t i = 0; i < P; i++)
        grads[i] = (float)(steepness(b->node, i) * ((double)params[i] - target(b->node, i)));
    has_computed[b->step][b->node] = true;
    score->n++;
    return 0;
}

/* ---- the optimizers, in double ---- */

struct double_worker {
    double w[P], g[P], m[P], v[P];
    int t;
};

static void update(struct double_worker *k, enum optimizer_kind kind)
{
    double rate = lr;

    k->t++;
    if (kind == OPTIMIZER_ADAM || kind == OPTIMIZER_ADAMW)
        rate = lr * sqrt(1 - pow(0.999, k->t)) / (1 - pow(0.9, k->t));
    for (size_t i = 0; i < P; i++) {
        double g = k->g[i] + (kind == OPTIMIZER_ADAMW ? 0 : decay * k->w[i]);

        if (kind == OPTIMIZER_SGD) {
            k->w[i] -= lr * g;
        } else if (kind == OPTIMIZER_MOMENTUM) {
            k->m[i] = 0.9 * k->m[i] + g;
            k->w[i] -= lr * k->m[i];
        } else {
            k->m[i] = 0.9 * k->m[i] + 0.1 * g;
            k->v[i] = 0.999 * k->v[i] + 0.001 * g * g;
            if (kind == OPTIMIZER_ADAMW)
                k->w[i] *= 1 - lr * decay;
            k->w[i] -= rate * k->m[i] / (sqrt(k->v[i]) + 1e-8 * sqrt(1 - pow(0.999, k->t)));
        }
    }
}

/* ---- the rules, in double ---- */

struct job {
    int n, m; /* workers, and those that take part in this round */
    bool is_in[N_MAX];
    struct double_worker k[N_MAX];
    double x[P], a[P], b[P]; /* the global parameters, and vectors that the rule keeps */
    double own[N_MAX][P];    /* and those of each worker */
    int n_local;
    /* --overlap 1: gradients of the step before, or weights when they were last contributed */
    bool is_late, has_late;
    double late[N_MAX][P];
};

static double mean_of_weights(const struct job *j, size_t i)
{
    double sum = 0;

    for (int k = 0; k < j->n; k++)
        sum += j->is_in[k] ? j->k[k].w[i] : 0;
    return sum / j->m;
}

static void mean_gradient(struct job *j, size_t i)
{
    double sum = 0;

    for (int k = 0; k < j->n; k++)
        sum += j->is_in[k] ? j->k[k].g[i] : 0;
    for (int k = 0; k < j->n; k++)
        j->k[k].g[i] = sum / j->m;
}

static void sum_gradient(struct job *j, size_t i)
{
    mean_gradient(j, i);
    for (int k = 0; k < j->n; k++)
        j->k[k].g[i] *= j->m;
}

static void vote(struct job *j, size_t i)
{
    int sum = 0;

    for (int k = 0; k < j->n; k++)
        sum += j->is_in[k] ? (j->k[k].g[i] > 0) - (j->k[k].g[i] < 0) : 0;
    for (int k = 0; k < j->n; k++)
        j->k[k].g[i] = (sum > 0) - (sum < 0);
}

static void fedprox_gradient(struct job *j, size_t i)
{
    for (int k = 0; k < j->n; k++)
        j->k[k].g[i] += 0.3 * (j->k[k].w[i] - j->x[i]);
}

static void scaffold_gradient(struct job *j, size_t i)
{
    for (int k = 0; k < j->n; k++)
        j->k[k].g[i] += j->a[i] - j->own[k][i];
}

static void average(struct job *j, size_t i)
{
    j->x[i] = mean_of_weights(j, i);
}

static void scaffold(struct job *j, size_t i)
{
    double sum = 0, before = j->a[i];

    for (int k = 0; k < j->n; k++) {
        if (!j->is_in[k])
            continue;
        double next = j->own[k][i] - before + (j->x[i] - j->k[k].w[i]) / (j->n_local * lr);

        sum += next - j->own[k][i];
        j->own[k][i] = next;
    }
    j->a[i] += sum / j->n;
    j->x[i] += 0.9 * (mean_of_weights(j, i) - j->x[i]);
}

static void fedavgm(struct job *j, size_t i)
{
    j->a[i] = 0.6 * j->a[i] + j->x[i] - mean_of_weights(j, i);
    j->x[i] -= 0.8 * j->a[i];
}

static void adaptive(struct job *j, size_t i, bool is_yogi)
{
    double d = mean_of_weights(j, i) - j->x[i], d2 = d * d;

    j->a[i] = 0.9 * j->a[i] + 0.1 * d;
    j->b[i] = is_yogi ? j->b[i] - 0.01 * d2 * ((j->b[i] > d2) - (j->b[i] < d2)) : 0.99 * j->b[i] + 0.01 * d2;
    j->x[i] += 0.1 * j->a[i] / (sqrt(j->b[i]) + 1e-2);
}

static void fedadam(struct job *j, size_t i)
{
    adaptive(j, i, false);
}

static void fedyogi(struct job *j, size_t i)
{
    adaptive(j, i, true);
}

static void diloco(struct job *j, size_t i)
{
    double d = j->x[i] - mean_of_weights(j, i);

    j->a[i] = 0.9 * j->a[i] + d;
    j->x[i] -= 0.7 * (d + 0.9 * j->a[i]);
}

static void slowmo(struct job *j, size_t i)
{
    j->a[i] = 0.7 * j->a[i] + (j->x[i] - mean_of_weights(j, i)) / lr;
    j->x[i] -= 0.9 * lr * j->a[i];
}

static void asgd(struct job *j, size_t i)
{
    double x = j->x[i];

    for (int k = 0; k < j->n; k++)
        j->x[i] += j->is_in[k] ? j->k[k].w[i] - x : 0;
}

static void easgd(struct job *j, size_t i)
{
    double x = j->x[i];

    for (int k = 0; k < j->n; k++) {
        j->x[i] += !j->is_in[k] ? 0 : 0.1 * (j->k[k].w[i] - x);
        j->k[k].w[i] -= 0.1 * (j->k[k].w[i] - x);
    }
}

static void easgd_gradient(struct job *j, size_t i)
{
    for (int k = 0; k < j->n; k++)
        j->k[k].g[i] += 0.4 * (j->k[k].w[i] - j->x[i]);
}

static void easgd_center(struct job *j, size_t i)
{
    double x = j->x[i];

    for (int k = 0; k < j->n; k++)
        j->x[i] += !j->is_in[k] ? 0 : lr * 0.4 * (j->k[k].w[i] - x);
}

static const struct rule {
    const char *codec, *options;
    void (*each_step)(struct job *j, size_t i);   /* moves g */
    void (*on_gradient)(struct job *j, size_t i); /* before a local step */
    void (*each_round)(struct job *j, size_t i);  /* moves x */
    bool keeps_own;                               /* workers do not take x over */
    bool adds_up;                                 /* x takes n steps at once: n times the rounding */
} rules[] = {
    {.codec = "allreduce", .each_step = mean_gradient},
    {.codec = "plain", .each_step = mean_gradient},
    {.codec = "doublesqueeze", .each_step = mean_gradient},
    {.codec = "ps", .each_step = mean_gradient},
    {.codec = "ps_sum", .each_step = sum_gradient, .adds_up = true},
    {.codec = "signsgd", .each_step = vote},
    {.codec = "fedavg", .each_round = average},
    {.codec = "localsgd", .each_round = average},
    {.codec = "fedpaq", .each_round = average},
    {.codec = "fednova", .each_round = average},
    {"fedprox", "mu=0.3", NULL, fedprox_gradient, average, false, false},
    {"scaffold", "lr=0.9", NULL, scaffold_gradient, scaffold, false, false},
    {"fedavgm", "beta=0.6,lr=0.8", NULL, NULL, fedavgm, false, false},
    {"fedadam", "lr=0.1,tau=0.01", NULL, NULL, fedadam, false, false},
    {"fedyogi", "lr=0.1,tau=0.01", NULL, NULL, fedyogi, false, false},
    {"diloco", "lr=0.7,mu=0.9", NULL, NULL, diloco, false, false},
    {"slowmo", "alpha=0.9,beta=0.7", NULL, NULL, slowmo, false, false},
    {.codec = "asgd", .each_round = asgd, .adds_up = true},
    {"easgd", "alpha=0.1", NULL, NULL, easgd, true, false},
    {"easgd_grad", "rho=0.4", NULL, easgd_gradient, easgd_center, true, false},
};

static void on_each(struct job *j, void (*what)(struct job *j, size_t i))
{
    for (size_t i = 0; what && i < P; i++)
        what(j, i);
}

/* The workers that take part are those of the last simulation. */
static void draw(struct job *j, int step)
{
    j->m = 0;
    for (int k = 0; k < j->n; k++) {
        j->is_in[k] = has_computed[step - 1][k];
        j->m += j->is_in[k];
    }
}

/* The gradients of the step before, of which each_step makes the update; first zeros. */
static void delay_gradients(struct job *j)
{
    for (int k = 0; j->is_late && k < j->n; k++)
        for (size_t i = 0; i < P; i++) {
            double g = j->k[k].g[i];

            j->k[k].g[i] = j->late[k][i];
            j->late[k][i] = g;
        }
}

static void take_over(struct job *j, const struct rule *r)
{
    for (int k = 0; r->each_round && !r->keeps_own && k < j->n; k++)
        memcpy(j->k[k].w, j->x, sizeof j->x);
}

/* The rule acts on the weights as they were contributed; later changes stay added. */
static void late_round(struct job *j, const struct rule *r, bool is_last)
{
    for (int turn = 0; turn <= is_last; turn++) {
        double since[N_MAX][P] = {{0}};

        for (int k = 0; j->has_late && k < j->n; k++)
            for (size_t i = 0; i < P; i++) {
                since[k][i] = j->k[k].w[i] - j->late[k][i];
                j->k[k].w[i] = j->late[k][i];
            }
        if (j->has_late) {
            on_each(j, r->each_round);
            take_over(j, r);
        }
        for (int k = 0; k < j->n; k++)
            for (size_t i = 0; i < P; i++)
                j->late[k][i] = j->k[k].w[i] += since[k][i];
        j->has_late = true;
    }
}

static void reference(struct job *j, const struct rule *r, enum optimizer_kind kind)
{
    for (size_t i = 0; i < P; i++) {
        j->x[i] = (double)i / 1024;
        j->b[i] = 1e-2 * 1e-2; /* tau^2, of fedadam and fedyogi */
        for (int k = 0; k < j->n; k++)
            j->k[k].w[i] = j->x[i];
    }
    for (int step = 1; step <= STEPS; step++) {
        draw(j, step);
        for (int k = 0; k < j->n; k++)
            for (size_t i = 0; i < P; i++)
                j->k[k].g[i] = steepness(k, i) * (j->k[k].w[i] - target(k, i));
        if (r->each_step)
            delay_gradients(j);
        on_each(j, r->each_step);
        on_each(j, r->on_gradient);
        for (int k = 0; k < j->n; k++)
            if (j->is_in[k] || r->each_step)
                update(&j->k[k], kind);
        j->n_local++;
        if (step % EVERY != 0 && step != STEPS)
            continue;
        if (j->is_late && r->each_round)
            late_round(j, r, step == STEPS);
        else
            on_each(j, r->each_round);
        j->n_local = 0;
        if (!j->is_late)
            take_over(j, r);
    }
}

/* ---- the comparison ---- */

static struct sim s;

/* False: the rule refuses such a job. */
static bool simulate(const struct rule *r, enum combine_path_kind path, int n, enum optimizer_kind kind,
                     double share, enum overlap overlap)
{
    static struct workload_ops ops;
    struct settings set;
    struct simulation how;
    struct err e = {0};

    settings_default(&set);
    simulation_default(&how);
    snprintf(set.codec, sizeof set.codec, "%s", r->codec);
    memcpy(set.server_codec, set.codec, sizeof set.codec);
    snprintf(set.codec_options, sizeof set.codec_options, "%s", r->options ? r->options : "");
    memcpy(set.server_codec_options, set.codec_options, sizeof set.codec_options);
    set.node_count = n;
    set.server_count = path == COMBINE_PATH_SERVERS ? 2 : 0;
    set.path = path;
    set.participate = share;
    set.overlap = overlap;
    set.epochs = 1;
    set.steps_per_epoch = STEPS;
    set.local_steps = EVERY;
    settings_set_optimizer(&set, kind);
    set.learn_rate = lr;
    set.weight_decay = decay;
    how.gradients = P;
    how.workers_per_machine = path == COMBINE_PATH_TREE ? 3 : 1;
    strcpy(how.step_time, "0.01");
    strcpy(how.link, "100Mbit,1ms");
    if (!sim_job_try(&s, &set, &how, set.codec, &e)) {
        assert_int_equal(e.code, ERR_CODEC);
        return false;
    }
    ops = *s.workload->ops;
    ops.begin = begin;
    ops.gradient = gradient;
    s.workload->ops = &ops;
    memset(has_computed, 0, sizeof has_computed);
    assert_int_equal(sim_restart(&s, &e), 0);
    assert_int_equal(sim_run(&s, &e), 0);
    if (!sim_has_succeeded(&s))
        fail_msg("%s by %s: %s", r->codec, combine_path_name(path), s.nodes[s.cause].e->text);
    return true;
}

/* The largest difference, relative to the largest weight. */
static double difference(const struct job *j)
{
    double most = 0, largest = 0;

    for (int k = 0; k < j->n; k++)
        for (size_t i = 0; i < P; i++) {
            most = fmax(most, fabs((double)s.nodes[k].params[i] - j->k[k].w[i]));
            largest = fmax(largest, fabs(j->k[k].w[i]));
        }
    return most / largest;
}

/* The largest difference over the paths that the rule has; *n_runs: their number. */
static double compare(const struct rule *r, int n, enum optimizer_kind kind, double share,
                      enum overlap overlap, int *n_runs)
{
    struct job *j = calloc(1, sizeof *j);
    double worst = 0;

    assert_non_null(j);
    for (int path = COMBINE_PATH_AUTO + 1; path < COMBINE_PATH_KINDS; path++) {
        double d;

        if (!simulate(r, (enum combine_path_kind)path, n, kind, share, overlap))
            continue;
        *j = (struct job){.n = n, .is_late = overlap == OVERLAP_ONE};
        reference(j, r, kind);
        d = difference(j);
        if (!(d <= (r->adds_up ? n * 1e-6 : 1e-6)))
            fail_msg("%s by %s, %d workers, optimizer %d: %g", r->codec,
                     combine_path_name((enum combine_path_kind)path), n, (int)kind, d);
        assert_true(r->keeps_own || sim_models_agree(&s));
        worst = fmax(worst, d);
        ++*n_runs;
        sim_close(&s);
    }
    free(j);
    return worst;
}

enum { KINDS = 4, SIZES = 4 };

/* Pairs of an optimizer and a number of workers: without LONG=1 half of them, in which each rule has
 * each optimizer and each number. */
static int n_pairs(void)
{
    return KINDS * SIZES / (unit_is_long() ? 1 : 2);
}

/* Every rule with four optimizers and 1, 2, 3 and 8 workers. Returns the number of jobs. */
static int compare_all(enum overlap overlap)
{
    static const enum optimizer_kind kinds[KINDS] = {OPTIMIZER_SGD, OPTIMIZER_MOMENTUM, OPTIMIZER_ADAM,
                                                     OPTIMIZER_ADAMW};
    static const int sizes[SIZES] = {1, 2, 3, 8};
    double worst = 0;
    int n_runs = 0;

    for (size_t r = 0; r < N_OF(rules); r++)
        for (size_t o = 0; o < KINDS; o++)
            for (size_t z = 0; z < SIZES; z++)
                if (unit_is_long() || (r + o + z) % 2 == 0)
                    worst = fmax(worst, compare(&rules[r], sizes[z], kinds[o], 1, overlap, &n_runs));
    printf("%d jobs; largest relative difference from float64: %.2g\n", n_runs, worst);
    return n_runs;
}

TEST(every_rule_follows_its_formula_by_every_path)
{
    assert_true(compare_all(OVERLAP_NONE) > 25 * n_pairs());
}

/* In each round other workers, of which the others take the result. */
TEST(with_a_draw_of_workers_every_rule_follows_its_formula)
{
    int n_runs = 0;

    for (size_t r = 0; r < N_OF(rules); r++) {
        int first[N_MAX] = {0}, n_computed[N_MAX] = {0};

        compare(&rules[r], 8, OPTIMIZER_MOMENTUM, 0.4, OVERLAP_NONE, &n_runs);
        for (int step = 0; step < STEPS; step++) {
            int m = 0;

            for (int k = 0; k < 8; k++) {
                m += has_computed[step][k];
                n_computed[k] += has_computed[step][k];
                first[k] += step < EVERY && has_computed[step][k];
            }
            assert_int_equal(m, 4); /* 0.4 of 8, rounded up */
        }
        for (int k = 0; k < 8; k++) {
            assert_true(n_computed[k] < STEPS);                       /* no one always, */
            assert_true(rules[r].each_step || first[k] % EVERY == 0); /* and for whole rounds */
        }
    }
    assert_true(n_runs > 25);
}

TEST(with_overlap_every_rule_that_allows_it_follows_its_formula_one_exchange_late)
{
    assert_int_equal(compare_all(OVERLAP_ONE),
                     ((int)N_OF(rules) - 3) * n_pairs() * 2); /* two paths; without ps, ps_sum and scaffold */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_follows_its_formula_by_every_path),
        cmocka_unit_test(with_overlap_every_rule_that_allows_it_follows_its_formula_one_exchange_late),
        cmocka_unit_test(with_a_draw_of_workers_every_rule_follows_its_formula),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
