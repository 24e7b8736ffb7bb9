/* Several servers, each with a range of the parameters: distances (--aggregate krum, geomedian) and norms
 * (--clip-norm) are of whole vectors, as with one server. Compared with formulas in double precision. */
#include "tests/lib/run_well.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/exchange/aggregators/aggregators.h"
#include "runner/exchange/whole.h"
#include "tests/lib/sim_job.h"

enum { N_PARAMS = 50, N_STATISTICS = 20, N_SHOWN = N_PARAMS - N_STATISTICS, WORKERS = 7, SERVERS_MAX = 4 };

static float start(size_t i)
{
    return (float)i / (float)N_PARAMS;
}

/* ---- krum ---- */

/* The choice of krum:2 by distances over [from, to). */
static int chosen(float v[WORKERS][N_PARAMS], size_t from, size_t to)
{
    double least = INFINITY;
    int best = -1;

    for (int k = 0; k < WORKERS; k++) {
        double d[WORKERS], score = 0;

        for (int j = 0; j < WORKERS; j++) {
            d[j] = 0;
            for (size_t i = from; i < to; i++)
                d[j] += ((double)v[k][i] - (double)v[j][i]) * ((double)v[k][i] - (double)v[j][i]);
        }
        aggregate_sort(d, WORKERS);
        for (int j = 1; j <= WORKERS - 2 - 2; j++)
            score += d[j];
        if (score < least) {
            least = score;
            best = k;
        }
    }
    return best;
}

/* A round of fedavg after n_steps local steps. Returns whether a server's range alone would have another
 * choice than the whole vector. */
static bool check_krum(uint64_t n_steps, int n_servers)
{
    const struct cluster_config cfg = {.codec = "fedavg",
                                       .aggregate = {AGGREGATE_KRUM, 2},
                                       .n_workers = WORKERS,
                                       .n_servers = n_servers,
                                       .n_steps = n_steps,
                                       .local_steps = n_steps,
                                       .n_params = N_PARAMS,
                                       .n_statistics = N_STATISTICS};
    float v[WORKERS][N_PARAMS];
    bool differs = false;
    struct cluster c;
    int best;

    for (int k = 0; k < WORKERS; k++)
        for (size_t i = 0; i < N_PARAMS; i++) {
            v[k][i] = start(i);
            for (uint64_t t = 0; t < n_steps; t++)
                v[k][i] -= CLUSTER_LR * cluster_gradient(t, k, i);
        }
    best = chosen(v, 0, N_SHOWN);
    run_well(&c, &cfg);
    for (int k = 0; k < WORKERS; k++)
        assert_memory_equal(c.nodes[k].params, v[best], N_SHOWN * sizeof(float));
    for (int s = 0; s < n_servers; s++) {
        struct exchange_range r = exchange_range(c.nodes[WORKERS + s].x);
        size_t end = r.first + r.n < N_SHOWN ? r.first + r.n : N_SHOWN;

        differs |= r.first < end && chosen(v, r.first, end) != best;
    }
    cluster_close(&c);
    return differs;
}

TEST(krum_by_several_servers_chooses_by_distances_of_whole_vectors)
{
    int n_differ = 0;

    for (uint64_t n_steps = 1; n_steps <= 5; n_steps++)
        for (int n_servers = 1; n_servers <= SERVERS_MAX; n_servers++)
            n_differ += check_krum(n_steps, n_servers);
    assert_true(n_differ >= 10);
}

/* ---- the geometric median ---- */

/* Of n_vectors gradients of the first step, by the iteration itself, in double precision, from the mean. */
static void weiszfeld(double *z, int n_vectors, size_t n)
{
    float v[WORKERS][N_PARAMS];

    for (size_t i = 0; i < n; i++) {
        z[i] = 0;
        for (int k = 0; k < n_vectors; k++) {
            v[k][i] = cluster_gradient(0, k, i);
            z[i] += (double)v[k][i] / n_vectors;
        }
    }
    for (int t = 0; t < 2000; t++) {
        double next[N_PARAMS] = {0}, total = 0;

        for (int k = 0; k < n_vectors; k++) {
            double square = 0;

            for (size_t i = 0; i < n; i++)
                square += (z[i] - (double)v[k][i]) * (z[i] - (double)v[k][i]);
            total += 1 / sqrt(square);
            for (size_t i = 0; i < n; i++)
                next[i] += (double)v[k][i] / sqrt(square);
        }
        for (size_t i = 0; i < n; i++)
            z[i] = next[i] / total;
    }
}

TEST(the_geometric_median_by_several_servers_is_that_of_whole_vectors)
{
    double z[N_PARAMS];

    weiszfeld(z, WORKERS, N_SHOWN);
    for (int n_servers = 1; n_servers <= SERVERS_MAX; n_servers++) {
        struct cluster_config cfg = {.codec = "ps",
                                     .aggregate = {.kind = AGGREGATE_GEOMEDIAN},
                                     .n_workers = WORKERS,
                                     .n_servers = n_servers,
                                     .n_steps = 1,
                                     .n_params = N_PARAMS,
                                     .n_statistics = N_STATISTICS};
        struct cluster c;

        run_well(&c, &cfg);
        for (size_t i = 0; i < N_SHOWN; i++)
            assert_true(fabs((double)(c.nodes[0].params[i] - start(i)) + (double)CLUSTER_LR * z[i]) < 1e-6);
        cluster_close(&c);
    }
}

/* ---- the norm ---- */

static const double limit = 0.75;

static double scale_of(const double *g)
{
    double square = 0;

    for (size_t i = 0; i < N_SHOWN; i++)
        square += g[i] * g[i];
    assert_true(sqrt(square) > limit);
    return limit / (sqrt(square) + 1e-6);
}

/* x (N_SHOWN) moves by the limited mean, or sum, of the gradients of workers from .. to - 1. */
static void step(double *x, uint64_t t, int from, int to, bool is_mean)
{
    double g[N_SHOWN], scale;

    for (size_t i = 0; i < N_SHOWN; i++) {
        g[i] = 0;
        for (int k = from; k < to; k++)
            g[i] += (double)cluster_gradient(t, k, i) / (is_mean ? to - from : 1);
    }
    scale = scale_of(g);
    for (size_t i = 0; i < N_SHOWN; i++)
        x[i] -= (double)CLUSTER_LR * scale * g[i];
}

static void assert_servers_are_near(const struct cluster *c, const double *x)
{
    for (int s = 0; s < c->cfg.n_servers; s++) {
        const struct cluster_node *n = &c->nodes[c->cfg.n_workers + s];
        struct exchange_range r = exchange_range(n->x);

        for (size_t i = r.first; i < r.first + r.n && i < N_SHOWN; i++)
            assert_true(fabs(x[i] - (double)n->params[i]) < 2e-6);
    }
}

TEST(a_limit_of_the_norm_is_of_the_whole_gradient_on_several_servers)
{
    static const struct {
        const char *codec;
        bool is_mean;
    } cases[] = {{"ps", true}, {"ps_sum", false}};
    enum { N_WORKERS = 3, N_STEPS = 4 };

    for (size_t k = 0; k < N_OF(cases); k++)
        for (int n_servers = 1; n_servers <= SERVERS_MAX; n_servers++)
            for (int is_asgd = 0; is_asgd < 2; is_asgd++) {
                struct cluster_config cfg = {.codec = cases[k].codec,
                                             .n_workers = N_WORKERS,
                                             .n_servers = n_servers,
                                             .is_asgd = is_asgd,
                                             .clip_norm = limit,
                                             .n_steps = N_STEPS,
                                             .n_params = N_PARAMS,
                                             .n_statistics = N_STATISTICS};
                struct cluster c;
                double x[N_SHOWN];

                for (size_t i = 0; i < N_SHOWN; i++)
                    x[i] = (double)start(i);
                for (uint64_t t = 0; t < N_STEPS; t++)
                    for (int w = 0; w < (is_asgd ? N_WORKERS : 1); w++)
                        step(x, t, is_asgd ? w : 0, is_asgd ? w + 1 : N_WORKERS, cases[k].is_mean);
                run_well(&c, &cfg);
                assert_servers_are_near(&c, x);
                cluster_close(&c);
            }
}

/* loss_aware requests its update in apply(), and then changes the parameters that workers get. */
TEST(a_rule_of_rounds_gets_the_norm_of_the_whole_gradient_too)
{
    struct cluster_config cfg = {
        .codec = "loss_aware", .n_workers = 3, .clip_norm = limit, .n_steps = 1, .n_params = N_SHOWN};

    for (cfg.n_servers = 1; cfg.n_servers <= SERVERS_MAX; cfg.n_servers++) {
        struct cluster c;
        double x[N_SHOWN];

        for (size_t i = 0; i < N_SHOWN; i++)
            x[i] = (double)i / N_SHOWN;
        step(x, 0, 0, 3, true);
        run_well(&c, &cfg);
        assert_servers_are_near(&c, x);
        cluster_close(&c);
    }
}

/* ---- steps that are skipped ---- */

enum { STEPS = 6, SUM_OVERFLOWS_AT = 3, HALF_IS_ZERO_FROM = 4 };

/* Each worker's gradient is finite; at one step the sum of the last component is not. Later the gradient
 * of the first half is 0; momentum still changes its weights if no step is skipped. */
static int gradient(struct workload *load, const struct workload_batch *b, const float *params, float *grads,
                    struct net_score *score, struct err *e)
{
    (void)params, (void)e;
    for (size_t i = 0; i < load->n_params; i++)
        grads[i] = b->step >= HALF_IS_ZERO_FROM && i < load->n_params / 2
                       ? 0
                       : cluster_gradient(b->step, b->node, i);
    if (b->step == SUM_OVERFLOWS_AT)
        grads[load->n_params - 1] = 3e38F;
    score->n++;
    return 0;
}

static void train(float *out, const char *codec, int n_servers)
{
    static struct workload_ops ops;
    static struct sim s;
    struct settings set;
    struct simulation how;
    struct err e = {0};

    settings_default(&set);
    simulation_default(&how);
    snprintf(set.codec, sizeof set.codec, "%s", codec);
    memcpy(set.server_codec, set.codec, sizeof set.codec);
    set.node_count = 2;
    set.server_count = n_servers;
    set.epochs = 1;
    set.steps_per_epoch = STEPS;
    set.learn_rate = 0.05;
    settings_set_optimizer(&set, OPTIMIZER_MOMENTUM);
    set.momentum = 0.9;
    set.on_nonfinite = NONFINITE_SKIPS;
    how.gradients = N_PARAMS;
    strcpy(how.step_time, "0.01");
    strcpy(how.link, "100Mbit,1ms");
    sim_job_open(&s, &set, &how, codec);
    ops = *s.workload->ops;
    ops.gradient = gradient;
    s.workload->ops = &ops;
    assert_int_equal(sim_restart(&s, &e), 0);
    assert_int_equal(sim_run(&s, &e), 0);
    assert_true(sim_has_succeeded(&s));
    memcpy(out, s.nodes[0].params, N_PARAMS * sizeof *out);
    sim_close(&s);
}

TEST(a_step_is_skipped_on_all_servers_or_on_none)
{
    float one[N_PARAMS], several[N_PARAMS];

    train(one, "ps_sum", 1);
    for (int n_servers = 2; n_servers <= SERVERS_MAX; n_servers++) {
        train(several, "ps_sum", n_servers);
        assert_memory_equal(several, one, sizeof one);
    }
}

/* ---- traffic, loss, malformed parts ---- */

TEST(messages_between_servers_are_counted)
{
    struct cluster_config cfg = {.codec = "ps",
                                 .aggregate = {.kind = AGGREGATE_GEOMEDIAN},
                                 .clip_norm = limit,
                                 .n_workers = 5,
                                 .n_servers = 2,
                                 .n_steps = 3,
                                 .n_params = N_PARAMS};
    struct cluster c;

    run_well(&c, &cfg);
    for (int s = 0; s < 2; s++) {
        const struct exchange *x = c.nodes[5 + s].x;
        const struct exchange_traffic *ways[] = {exchange_sent(x, -3 + s), exchange_received(x, -3 + s)};

        for (int k = 0; k < 2; k++) { /* of the last round: 5 workers and 15 products; the norm */
            assert_int_equal(ways[k]->messages, 2);
            assert_int_equal(ways[k]->raw_bytes, 5 + 8 * 15 + 8);
        }
    }
    cluster_close(&c);
}

static void deliver(struct cluster_node *n, struct mesh_event *ev)
{
    assert_true(exchange_on_event(n->x, ev, &n->e) >= 0);
}

/* The gradient of the first step, its part in the range of server s (from 0), reaches that server. */
static void contribute(struct cluster *c, int s, int worker)
{
    struct cluster_node *n = &c->nodes[c->cfg.n_workers + s];
    struct exchange_range r = exchange_range(n->x);
    struct mesh_event ev = {
        .kind = MESH_MESSAGE,
        .head = {
            .kind = FRAME_CONTRIBUTION, .peer = worker, .channel = (uint16_t)s, .index = (uint32_t)worker}};

    ev.buf = mesh_buf_take(n->mesh);
    for (size_t i = 0; i < r.n; i++) {
        float g = cluster_gradient(0, worker, r.first + i);

        memcpy(ev.buf->bytes + i * sizeof g, &g, sizeof g);
    }
    ev.buf->len = r.n * sizeof(float);
    deliver(n, &ev);
}

TEST(a_contribution_of_a_lost_worker_that_one_server_lacks_counts_at_no_server)
{
    struct cluster_config cfg = {.codec = "doublesqueeze",
                                 .aggregate = {.kind = AGGREGATE_GEOMEDIAN},
                                 .n_workers = 5,
                                 .n_servers = 2,
                                 .n_steps = 1,
                                 .n_params = N_SHOWN,
                                 .goes_on = 1};
    struct mesh_event lost = {.kind = MESH_LOST, .head.peer = 4, .why = "a test"};
    double z[N_PARAMS];
    struct cluster c;

    weiszfeld(z, 4, N_SHOWN);
    cluster_open(&c, &cfg);
    for (int k = 0; k < 5; k++)
        contribute(&c, 0, k);
    for (int k = 0; k < 4; k++)
        contribute(&c, 1, k);
    deliver(&c.nodes[6], &lost);
    for (int s = 0; s < 2; s++) {
        struct cluster_node *n = &c.nodes[5 + s];
        struct exchange_range r = exchange_range(n->x);
        struct mesh_event ev;

        mesh_poll(n->mesh, &ev, 0, &n->e);
        assert_int_equal(ev.head.kind, FRAME_PART);
        deliver(n, &ev);
        for (size_t i = r.first; i < r.first + r.n; i++)
            assert_true(fabs((double)n->grads[i] - z[i]) < 1e-6);
    }
    cluster_close(&c);
}

TEST(a_node_that_is_lost_leaves_no_server_waiting_and_workers_equal)
{
    struct cluster_config cfg = {.codec = "ps",
                                 .aggregate = {.kind = AGGREGATE_GEOMEDIAN},
                                 .clip_norm = limit,
                                 .n_workers = 4,
                                 .n_servers = 3,
                                 .n_steps = 3,
                                 .n_params = N_SHOWN,
                                 .goes_on = 1};
    int n_without = 0;

    for (uint64_t turn = 2; turn <= 240; turn++) /* two seeds each; a job ends before the last */
        for (int killed = 0; killed < 2; killed++) {
            struct cluster c;

            cfg.kill_node = killed == 0 ? 1 : -3;
            cfg.kill_at = turn / 2;
            cfg.seed = turn;
            cluster_open(&c, &cfg);
            assert_true(cluster_run(&c));
            if (killed == 0) {
                for (int k = 0; k < c.n_nodes; k++)
                    assert_true(c.nodes[k].phase == NODE_DONE || k == 1);
                assert_memory_equal(c.nodes[0].params, c.nodes[2].params, N_SHOWN * sizeof(float));
                assert_memory_equal(c.nodes[0].params, c.nodes[3].params, N_SHOWN * sizeof(float));
                n_without += c.nodes[1].phase == NODE_KILLED;
            } else if (c.nodes[cfg.n_workers + 1].phase == NODE_KILLED) {
                for (int k = 0; k < c.n_nodes; k++)
                    assert_true(c.nodes[k].phase == NODE_FAILED || c.nodes[k].phase == NODE_KILLED ||
                                c.nodes[k].phase == NODE_DONE);
            }
            cluster_close(&c);
        }
    assert_true(n_without > 40);
}

/* What the first server of two makes of a part, before any contribution has come. */
static int receive_part(const struct mesh_head *h, const void *bytes, size_t len)
{
    struct cluster_config cfg = {.codec = "fedavg",
                                 .aggregate = {.kind = AGGREGATE_GEOMEDIAN},
                                 .n_workers = 2,
                                 .n_servers = 2,
                                 .n_steps = 1,
                                 .n_params = N_SHOWN};
    struct mesh_event ev = {.kind = MESH_MESSAGE, .head = *h};
    struct cluster c;
    struct err e = {0};
    int rc;

    cluster_open(&c, &cfg);
    ev.buf = mesh_buf_take(c.nodes[2].mesh);
    ev.buf->len = len;
    memcpy(ev.buf->bytes, bytes, len);
    rc = exchange_on_event(c.nodes[2].x, &ev, &e);
    if (rc < 0)
        assert_error_has("sent a m");
    cluster_close(&c);
    return rc;
}

TEST(a_malformed_part_is_refused)
{
    static const unsigned char none[2], both[2 + 3 * 8] = {1, 1}, one[2 + 8] = {0, 1}, odd[2 + 8] = {0, 2};
    static const struct {
        struct mesh_head head;
        const unsigned char *bytes;
        size_t len;
        bool is_good;
    } cases[] = {
        {{.peer = -3}, both, sizeof both, true},
        {{.peer = -3}, one, sizeof one, true},
        {{.peer = -3}, none, sizeof none, true},
        {{.peer = -3}, both, sizeof both - 1, false},
        {{.peer = -3}, both, 2, false},
        {{.peer = -3}, both, 1, false},
        {{.peer = -3}, both, 0, false},
        {{.peer = -3}, one, sizeof one - 8, false},
        {{.peer = -3}, odd, sizeof odd, false},
        {{.peer = -3, .round = 1}, both, sizeof both, false},
        {{.peer = -3, .index = WHOLE_NORM}, both, 8, false}, /* this job needs none */
        {{.peer = -3, .index = WHOLE_KINDS}, both, 8, false},
        {{.peer = 1}, both, sizeof both, false}, /* of a worker */
    };

    for (size_t k = 0; k < N_OF(cases); k++) {
        struct mesh_head h = cases[k].head;

        h.kind = FRAME_PART;
        assert_int_equal(receive_part(&h, cases[k].bytes, cases[k].len),
                         cases[k].is_good ? CODEC_GO : ERR_CODEC);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(krum_by_several_servers_chooses_by_distances_of_whole_vectors),
        cmocka_unit_test(the_geometric_median_by_several_servers_is_that_of_whole_vectors),
        cmocka_unit_test(a_limit_of_the_norm_is_of_the_whole_gradient_on_several_servers),
        cmocka_unit_test(a_rule_of_rounds_gets_the_norm_of_the_whole_gradient_too),
        cmocka_unit_test(a_step_is_skipped_on_all_servers_or_on_none),
        cmocka_unit_test(messages_between_servers_are_counted),
        cmocka_unit_test(a_contribution_of_a_lost_worker_that_one_server_lacks_counts_at_no_server),
        cmocka_unit_test(a_node_that_is_lost_leaves_no_server_waiting_and_workers_equal),
        cmocka_unit_test(a_malformed_part_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
