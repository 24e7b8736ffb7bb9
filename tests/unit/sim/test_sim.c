/* Whole simulated jobs with synthetic gradients: results, times and bytes. */
#include "tests/unit/unit.h"

#include <malloc.h>
#include <math.h>

#include "runner/mesh/frame.h"
#include "tests/lib/sim_job.h"

enum { N_PARAMS = 1000, N_STEPS = 10 };

static struct settings set;
static struct simulation how;
static struct sim s;
static struct err e;

static void job(const char *codec, int n_workers, int n_servers)
{
    settings_default(&set);
    simulation_default(&how);
    snprintf(set.codec, sizeof set.codec, "%s", codec);
    snprintf(set.server_codec, sizeof set.server_codec, "%s", codec);
    set.node_count = n_workers;
    set.server_count = n_servers;
    set.path = n_servers == 0 && (strcmp(codec, "fedavg") == 0 || strcmp(codec, "plain") == 0)
                   ? COMBINE_PATH_GATHER
                   : COMBINE_PATH_AUTO;
    set.epochs = 2;
    set.steps_per_epoch = N_STEPS / 2;
    set.local_steps = 5;
    set.momentum = 0;
    how.gradients = N_PARAMS;
    strcpy(how.step_time, "0.01");
    strcpy(how.link, "1Mbit,10ms"); /* 125 kB a second */
}

static void run(void)
{
    sim_job_open(&s, &set, &how, set.codec);
    assert_ok(sim_run(&s, &e));
}

static const struct exchange_totals *totals(int slot)
{
    return exchange_totals(s.nodes[slot].x);
}

TEST(every_rule_gives_all_workers_the_same_weights_near_the_known_optimum)
{
    static const char *const codecs[] = {"plain", "allreduce", "fedavg", "doublebuffer"};
    double first;

    for (size_t i = 0; i < N_OF(codecs); i++) {
        job(codecs[i], 5, 0);
        run();
        assert_true(sim_has_succeeded(&s) && sim_models_agree(&s) && sim_models_are_finite(&s));
        s.workload->ops->begin(s.workload, s.nodes[0].grads);
        s.workload->ops->evaluate(s.workload, s.nodes[0].grads, 0, &first, &(double){0}, &(struct err){0});
        assert_true(s.nodes[0].eval_loss < 0.5 * first);
        sim_close(&s);
    }
}

TEST(step_times_are_drawn_from_the_given_ones)
{
    double longer;

    job("fedavg", 1, 0);
    strcpy(how.step_time, "0.01,0.03");
    run();
    longer = (sim_time(&s) - (double)N_STEPS * 0.01) /
             0.02; /* the number of steps that took the second time */
    assert_true(fabs(longer - round(longer)) < 1e-9);
    assert_in_range((int)round(longer), 1, N_STEPS - 1);
    sim_close(&s);
}

TEST(simulated_time_is_computing_and_links_only)
{
    /* fedavg between two workers, 2 rounds: each has 5 steps, then a contribution of 4004 bytes and a frame
     * header. */
    const double contribution = (4004 + FRAME_BYTES) / 125e3;

    job("fedavg", 2, 0);
    run();
    assert_true(fabs(sim_time(&s) - (10 * 0.01 + 2 * (contribution + 0.01))) < 1e-9);
    sim_close(&s);
    /* One node is half as fast: the other one waits for it, and the slow one has the other's contribution
     * before it asks. */
    strcpy(how.speed, "1=0.5");
    run();
    assert_true(fabs(sim_time(&s) - (10 * 0.02 + contribution + 0.01)) < 1e-9);
    assert_true(fabs(exchange_watch(s.nodes[0].x)->spent[PHASE_WAIT] - (0.1 + contribution + 0.01)) < 1e-9);
    sim_close(&s);
    /* A codec that reads and writes a megabyte a second. Node 0 reads its own contribution while the other
     * one is in flight; node 1 reads in the order of the nodes, both when node 0's arrived. In the second
     * round its own contribution leaves that much later, and both finish at once. */
    strcpy(how.speed, "1");
    how.codec_rate_mbps = 1;
    run();
    assert_true(fabs(sim_time(&s) - (10 * 0.01 + 2 * (contribution + 0.01) + 5 * 0.004004)) < 1e-9);
    sim_close(&s);
}

TEST(reading_a_contribution_takes_time_when_it_is_applied_as_in_a_runner)
{
    job("fedavg", 2, 1);
    how.codec_rate_mbps = 1;
    run();
    assert_true(fabs(exchange_watch(s.nodes[0].x)->spent[PHASE_APPLY] - 2 * 0.004) < 1e-9);
    assert_true(exchange_watch(s.nodes[0].x)->spent[PHASE_DECODE] == 0);
    assert_true(fabs(exchange_watch(s.nodes[2].x)->spent[PHASE_DECODE] - 4 * 0.004004) < 1e-9);
    sim_close(&s);
}

TEST(a_message_takes_time_at_both_ends)
{
    const double contribution = (4004 + FRAME_BYTES) / 125e3, overhead = 0.001 + (4004 + FRAME_BYTES) / 500e3;

    job("fedavg", 2, 0);
    strcpy(how.overhead, "4Mbit,1ms");
    run();
    assert_true(fabs(sim_time(&s) - (10 * 0.01 + 2 * (contribution + 0.01 + 2 * overhead))) < 1e-9);
    assert_true(fabs(exchange_watch(s.nodes[0].x)->spent[PHASE_SEND] - 2 * overhead) < 1e-9);
    sim_close(&s);
    /* A node half as fast takes twice as long. */
    strcpy(how.speed, "1=0.5");
    run();
    assert_true(fabs(exchange_watch(s.nodes[0].x)->spent[PHASE_SEND] - 2 * overhead) < 1e-9);
    assert_true(fabs(exchange_watch(s.nodes[1].x)->spent[PHASE_SEND] - 4 * overhead) < 1e-9);
    sim_close(&s);
}

TEST(the_reduction_of_a_collective_takes_time_before_sending)
{
    double end;

    /* In each step half of the vector is received, added and sent on: 2 ms at a megabyte a second. */
    job("allreduce", 2, 0);
    set.allreduce = COLLECTIVE_RING;
    run();
    end = sim_time(&s);
    sim_close(&s);
    how.codec_rate_mbps = 1;
    run();
    assert_true(fabs(sim_time(&s) - (end + (double)N_STEPS * 0.002)) < 1e-9);
    sim_close(&s);
}

TEST(nodes_on_shared_processors_take_turns)
{
    const double contribution = (4004 + FRAME_BYTES) / 125e3;

    job("dummy", 4, 0);
    how.processors = 2;
    run();
    assert_true(fabs(sim_time(&s) - 4 * N_STEPS * 0.01 / 2) < 1e-9);
    for (int i = 0; i < 4; i++) /* none is delayed to the end */
        assert_true(s.nodes[i].ended_at > sim_time(&s) - 0.02);
    sim_close(&s);
    how.processors = 4;
    run();
    assert_true(fabs(sim_time(&s) - (double)N_STEPS * 0.01) < 1e-9);
    sim_close(&s);
    /* A waiting node yields the processor to the other one, which has received the contribution by the time
     * it has sent its own. */
    job("fedavg", 2, 0);
    how.processors = 1;
    run();
    assert_true(fabs(sim_time(&s) - (0.09 + contribution + 0.01 + 0.1 + contribution + 0.01)) < 1e-9);
    assert_true(sim_has_succeeded(&s) && sim_models_agree(&s));
    sim_close(&s);
}

TEST(a_node_that_dies_frees_its_processor)
{
    job("fedavg", 5, 1);
    how.processors = 2;
    set.on_node_loss = NODE_LOSS_CONTINUES;
    strcpy(how.kill, "0@1ms,1@2ms,2@27ms");
    run();
    assert_true(sim_has_succeeded(&s) && sim_models_agree(&s));
    assert_int_equal(s.n_free, 2);
    sim_close(&s);
}

TEST(the_link_of_a_server_is_shared_by_its_workers)
{
    const double contribution = (4004 + FRAME_BYTES) / 125e3, reply = (4000 + FRAME_BYTES) / 125e3;
    const double bye = (double)FRAME_BYTES / 125e3;
    int n = 7;

    /* Contributions arrive one after the other on the server's link, replies leave in the same way, and
     * then a BYE frame arrives. */
    job("fedavg", n, 1);
    set.local_steps = 10;
    set.epochs = 1;
    set.steps_per_epoch = 10;
    run();
    assert_true(fabs(sim_time(&s) - (0.1 + n * contribution + n * reply + bye + 3 * 0.01)) < 1e-9);
    sim_close(&s);
}

TEST(simulated_bytes_match_the_rule)
{
    job("fedavg", 4, 0);
    run();
    for (int i = 0; i < 4; i++)
        assert_true(totals(i)->sent_bytes == 2 * 3 * (4004 + FRAME_BYTES) &&
                    totals(i)->recv_bytes == totals(i)->sent_bytes);
    sim_close(&s);
    job("plain", 3, 0);
    run();
    assert_true(totals(0)->sent_bytes == N_STEPS * 2 * (4000 + FRAME_BYTES));
    sim_close(&s);
}

TEST(a_simulation_is_reproducible_and_depends_on_the_seed)
{
    float *first = malloc(N_PARAMS * sizeof *first);
    double end;

    assert_non_null(first);
    job("plain", 4, 0);
    set.sync = SYNC_ASGD;
    strcpy(how.link, "1Mbit,10ms,30ms");
    strcpy(how.straggler, "0.3:4");
    run();
    end = sim_time(&s);
    memcpy(first, s.nodes[2].params, N_PARAMS * sizeof *first);
    sim_close(&s);
    run();
    assert_true(sim_time(&s) == end);
    assert_memory_equal(first, s.nodes[2].params, N_PARAMS * sizeof *first);
    sim_close(&s);
    set.seed = 2;
    run();
    assert_true(sim_time(&s) != end);
    sim_close(&s);
    free(first);
}

TEST(jitter_does_not_reorder_messages_between_two_nodes)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        job("plain", 4, 0); /* a contribution of a round too early would be refused */
        set.seed = seed;
        strcpy(how.link, seed % 2 ? "any,1ms,500ms" : "10Mbit,1ms,500ms");
        run();
        assert_true(sim_has_succeeded(&s) && sim_models_agree(&s));
        sim_close(&s);
    }
}

TEST(the_death_of_a_worker_ends_the_job_or_the_others_continue)
{
    for (int n_servers = 0; n_servers < 2; n_servers++) {
        job("fedavg", 4, n_servers);
        strcpy(how.kill, "2@70ms");
        run();
        assert_false(sim_has_succeeded(&s));
        assert_int_equal(s.cause, 2);
        assert_int_equal(s.nodes[2].phase, SIM_KILLED);
        assert_int_equal(s.nodes[0].phase, SIM_FAILED);
        sim_close(&s);
        set.on_node_loss = NODE_LOSS_CONTINUES;
        run();
        assert_true(sim_has_succeeded(&s) && sim_models_agree(&s));
        assert_int_equal(s.nodes[0].phase, SIM_DONE);
        assert_true(s.nodes[0].step.n_done == N_STEPS && s.nodes[2].step.n_done < N_STEPS);
        assert_true(sim_time(&s) > 0.07 + SIM_DEATH_S);
        sim_close(&s);
    }
}

TEST(of_two_workers_cut_off_from_each_other_one_continues_with_the_others)
{
    int n_done = 0;

    job("plain", 4, 0);
    set.on_node_loss = NODE_LOSS_CONTINUES;
    set.min_nodes = 3;
    strcpy(how.cut, "0|3@20ms-30s");
    run();
    for (int i = 0; i < 4; i++)
        n_done += s.nodes[i].phase == SIM_DONE;
    assert_int_equal(n_done, 3);
    assert_true(sim_models_agree(&s));
    assert_int_equal(s.nodes[s.cause].e->code, ERR_LOST);
    assert_non_null(strstr(s.nodes[s.cause].e->text, "continues without this node"));
    sim_close(&s);
}

TEST(a_short_cut_delays_the_job_and_a_long_one_ends_it)
{
    double end;

    job("fedavg", 4, 0);
    run();
    end = sim_time(&s);
    sim_close(&s);
    strcpy(how.cut, "0-1|2-3@20ms-3s");
    run();
    assert_true(sim_has_succeeded(&s) && sim_models_agree(&s) && sim_time(&s) > end + 2.8);
    sim_close(&s);
    strcpy(how.cut, "0-1|2-3@20ms-30s");
    run();
    assert_false(sim_has_succeeded(&s));
    assert_true(fabs(sim_time(&s) - (0.02 + SIM_CUT_LOST_S)) < SIM_DEATH_S + 0.2);
    assert_int_equal(s.nodes[s.cause].e->code, ERR_LOST);
    sim_close(&s);
}

TEST(a_wait_beyond_the_round_timeout_ends_the_job_as_in_reality)
{
    job("fedavg", 2, 0);
    set.round_timeout_s = 1;
    strcpy(how.link, "10kbit,1ms"); /* 3.3 s per contribution */
    run();
    assert_false(sim_has_succeeded(&s));
    assert_int_equal(s.nodes[s.cause].e->code, ERR_TIMEOUT);
    sim_close(&s);
}

TEST(three_thousand_workers_and_two_servers_use_little_memory)
{
    job("fedavg", 3000, 2);
    how.gradients = 10;
    strcpy(how.link, "1Gbit,1ms");
    run();
    assert_true(sim_has_succeeded(&s) && sim_models_agree(&s));
    assert_int_equal(mesh_sim_messages(s.net), 2 * 3000 * 2 * 2);
    sim_close(&s);
}

/* Bytes allocated for a job of that many nodes at its end; 0 under a sanitizer, which has its own malloc. */
static double bytes_of_job(const char *codec, int n_workers)
{
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd, after;

    job(codec, n_workers, 0);
    set.path = COMBINE_PATH_AUTO;
    strcpy(how.link, "1Gbit,1ms");
    run();
    assert_true(sim_has_succeeded(&s));
    assert_true(mesh_sim_good_byes(s.net) <= 2 * 16 * (uint64_t)n_workers);
    after = mallinfo2().uordblks + mallinfo2().hblkhd;
    sim_close(&s);
    return (double)(after - before);
}

/* Of all pairs of nodes memory would be four times as much. */
TEST(twice_as_many_nodes_that_exchange_with_few_others_take_twice_the_memory)
{
    static const char *const codecs[] = {"gossip", "allreduce"};

    for (size_t i = 0; i < N_OF(codecs); i++) {
        double one = bytes_of_job(codecs[i], 500), two = bytes_of_job(codecs[i], 1000);

        assert_true(two <= 2.4 * one);
        assert_true(two / 1000 <= 64 << 10); /* of which vectors take up to 40 kB */
    }
}

TEST(on_a_ring_good_byes_go_to_neighbors)
{
    job("gossip", 200, 0);
    strcpy(how.link, "1Gbit,1ms");
    run();
    assert_true(sim_has_succeeded(&s));
    assert_true(mesh_sim_good_byes(s.net) > 0 && mesh_sim_good_byes(s.net) <= 2 * 200);
    sim_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_gives_all_workers_the_same_weights_near_the_known_optimum),
        cmocka_unit_test(step_times_are_drawn_from_the_given_ones),
        cmocka_unit_test(simulated_time_is_computing_and_links_only),
        cmocka_unit_test(reading_a_contribution_takes_time_when_it_is_applied_as_in_a_runner),
        cmocka_unit_test(a_message_takes_time_at_both_ends),
        cmocka_unit_test(the_reduction_of_a_collective_takes_time_before_sending),
        cmocka_unit_test(nodes_on_shared_processors_take_turns),
        cmocka_unit_test(a_node_that_dies_frees_its_processor),
        cmocka_unit_test(the_link_of_a_server_is_shared_by_its_workers),
        cmocka_unit_test(simulated_bytes_match_the_rule),
        cmocka_unit_test(a_simulation_is_reproducible_and_depends_on_the_seed),
        cmocka_unit_test(jitter_does_not_reorder_messages_between_two_nodes),
        cmocka_unit_test(the_death_of_a_worker_ends_the_job_or_the_others_continue),
        cmocka_unit_test(of_two_workers_cut_off_from_each_other_one_continues_with_the_others),
        cmocka_unit_test(a_short_cut_delays_the_job_and_a_long_one_ends_it),
        cmocka_unit_test(a_wait_beyond_the_round_timeout_ends_the_job_as_in_reality),
        cmocka_unit_test(three_thousand_workers_and_two_servers_use_little_memory),
        cmocka_unit_test(twice_as_many_nodes_that_exchange_with_few_others_take_twice_the_memory),
        cmocka_unit_test(on_a_ring_good_byes_go_to_neighbors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
