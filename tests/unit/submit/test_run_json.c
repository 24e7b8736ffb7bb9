#include "submit/results/run_json.h"

#include "tests/unit/unit.h"

static struct err e;
static struct options o;

/* Three workers and a server, which has no numbers of its own. */
static void begin(struct submission *s)
{
    settings_default(&o.settings);
    assert_ok(submission_init(s, &o, &e));
    s->settings.node_count = 3;
    s->settings.server_count = 1;
    s->workers.nodes = calloc(4, sizeof *s->workers.nodes);
    s->workers.n_workers = 3;
    s->workers.n_servers = 1;
    for (int i = 0; i < 4; i++) {
        s->workers.nodes[i].node = i < 3 ? i : -2;
        snprintf(s->workers.nodes[i].address, sizeof s->workers.nodes[i].address, "127.0.0.1:%d", i + 1);
    }
    assert_ok(submission_set_nodes(s, 3, 1, &e));
    for (int i = 0; i < 4; i++) {
        s->nodes[i].is_ended = s->nodes[i].has_started = true;
        s->nodes[i].view.state = JOB_SUCCEEDED;
    }
    s->nodes[3].view.progress.eval_loss = 100; /* a server's does not count */
}

static double mean(const struct submission *s, const char *name)
{
    json_t *run = run_json(s);
    double v = json_number_value(json_object_get(json_object_get(run, "mean_over_workers"), name));

    json_decref(run);
    return v;
}

static bool has_line(const struct submission *s, const char *line)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    bool has;

    run_json_print(f, s);
    fclose(f);
    has = strstr(text, line) != NULL;
    free(text);
    return has;
}

TEST(the_mean_over_the_workers_leaves_out_servers_and_lost_workers)
{
    struct submission s;

    setenv("XDG_STATE_HOME", "/nonexistent", 1);
    begin(&s);
    for (int i = 0; i < 3; i++) {
        s.nodes[i].view.progress.eval_loss = 0.25 * (i + 1);
        s.nodes[i].view.progress.eval_accuracy = 0.5;
    }
    assert_true(mean(&s, "eval_loss") == 0.5);
    assert_true(mean(&s, "eval_accuracy") == 0.5);
    assert_true(has_line(&s, "mean  worker                0.5000     0.5000\n"));
    s.settings.on_node_loss = NODE_LOSS_CONTINUES;
    s.settings.min_nodes = 1;
    s.nodes[2].view.state = JOB_FAILED;
    assert_true(mean(&s, "eval_loss") == 0.375);
    submission_clear(&s);
}

TEST(a_mean_of_batches_counts_a_worker_with_its_samples_and_one_of_the_test_set_does_not)
{
    struct submission s;

    begin(&s);
    snprintf(s.settings.block_ratio, sizeof s.settings.block_ratio, "5,2,1");
    for (int i = 0; i < 3; i++) {
        struct progress_view *p = &s.nodes[i].view.progress;

        p->loss = p->eval_loss = i + 1;
        p->accuracy = p->eval_accuracy = 0.5 * i;
    }
    assert_true(mean(&s, "loss") == (5 * 1 + 2 * 2 + 3) / 8.0);
    assert_true(mean(&s, "accuracy") == (2 * 0.5 + 1) / 8.0);
    assert_true(mean(&s, "eval_loss") == 2 && mean(&s, "eval_accuracy") == 0.5);
    s.settings.on_node_loss = NODE_LOSS_CONTINUES;
    s.settings.min_nodes = 1;
    s.nodes[1].view.state = JOB_FAILED;
    assert_true(mean(&s, "loss") == (5 + 3) / 6.0);
    submission_clear(&s);
}

TEST(equal_workers_need_no_line_with_their_mean_and_a_number_that_none_has_is_null)
{
    struct submission s;
    json_t *run;

    begin(&s);
    for (int i = 0; i < 3; i++)
        s.nodes[i].view.progress.eval_loss = 0.1;
    assert_true(mean(&s, "eval_loss") == 0.1);
    assert_false(has_line(&s, "mean  "));
    run = run_json(&s);
    assert_true(json_is_null(json_object_get(json_object_get(run, "mean_over_workers"), "loss")));
    json_decref(run);
    submission_clear(&s);
}

/* Sets the weights that the three workers report. */
static void end_with(struct submission *s, const char *weights)
{
    for (int i = 0; i < 3; i++) {
        char *hex = s->nodes[i].view.progress.params_sha256;

        memset(hex, weights[i], SHA256_HEX - 1);
        hex[weights[i] == '-' ? 0 : SHA256_HEX - 1] = '\0';
    }
}

/* "": there is no warning. */
static const char *warning(const struct submission *s)
{
    static char text[1024];
    json_t *run = run_json(s), *all = json_object_get(run, "warnings");

    assert_true(json_is_array(all) && json_array_size(all) < 2);
    snprintf(text, sizeof text, "%s",
             json_array_size(all) > 0 ? json_string_value(json_array_get(all, 0)) : "");
    json_decref(run);
    return text;
}

TEST(workers_that_end_different_are_named_unless_the_rule_means_it)
{
    struct submission s;

    begin(&s);
    json_object_set_new(s.facts, "codec", json_pack("{s:b}", "ends_equal", 1));
    end_with(&s, "aaa");
    assert_string_equal(warning(&s), "");
    end_with(&s, "aba");
    assert_non_null(
        strstr(warning(&s), "end different: the weights of node 1 differ from those of nodes 0, 2, and"));
    assert_true(has_line(&s, "\nWarning: The workers end different"));
    end_with(&s, "abc");
    assert_non_null(strstr(warning(&s), "of nodes 1, 2 differ from those of node 0, and"));
    assert_null(strstr(warning(&s), "MPI"));
    s.settings.allreduce = COLLECTIVE_MPI;
    assert_non_null(strstr(warning(&s), "Or MPI has given workers sums that differ in their last bits"));
    end_with(&s, "a-a"); /* a lost one, or one whose agent does not say */
    assert_string_equal(warning(&s), "");
    end_with(&s, "aab");
    s.settings.sync = SYNC_ASGD;
    assert_string_equal(warning(&s), "");
    s.settings.sync = SYNC_SSGD;
    json_object_set_new(s.facts, "codec", json_pack("{s:b}", "ends_equal", 0));
    assert_string_equal(warning(&s), "");
    assert_false(has_line(&s, "Warning"));
    submission_clear(&s);
}

TEST(workers_whose_exchanges_combined_nothing_get_one_warning_and_equal_ones_too)
{
    static const char what[] = "No exchange had a contribution with a weight, so nothing was combined: ";
    struct submission s;

    begin(&s);
    json_object_set_new(s.facts, "codec", json_pack("{s:b}", "ends_equal", 1));
    s.nodes[1].view.progress.combined_nothing = true;
    end_with(&s, "abc");
    assert_memory_equal(warning(&s), what, strlen(what));
    end_with(&s, "aaa");
    assert_memory_equal(warning(&s), what, strlen(what));
    submission_clear(&s);
}

TEST(a_rule_that_fails_in_asgd_is_pointed_to_the_limit_that_refuses_it)
{
    struct submission s;

    begin(&s);
    json_object_set_new(s.facts, "codec", json_pack("{s:b}", "has_ssgd", 1));
    s.settings.sync = SYNC_ASGD;
    s.state = JOB_FAILED;
    s.cause = 0;
    strcpy(s.nodes[0].view.reason, "RunnerDied");
    assert_string_equal(warning(&s), "");
    strcpy(s.nodes[0].view.reason, "CodecFailed");
    assert_non_null(strstr(warning(&s), "CODEC_NO_ASGD"));
    s.settings.sync = SYNC_SSGD;
    assert_string_equal(warning(&s), "");
    submission_clear(&s);
}

TEST(a_codec_that_takes_most_of_the_time_is_reported_as_the_bottleneck)
{
    struct submission s;
    double *of;

    begin(&s);
    for (int i = 0; i < 3; i++) {
        of = s.nodes[i].view.progress.comm.seconds;
        of[PHASE_COMPUTE] = 1;
        of[PHASE_ENCODE] = of[PHASE_DECODE] = 0.6;
        of[PHASE_WAIT] = 0.5;
    }
    assert_true(has_line(&s, "Bound by: the codec (encode/merge)."));
    of[PHASE_WAIT] = 5;
    assert_true(has_line(&s, "Bound by: communication."));
    submission_clear(&s);
}

TEST(bytes_of_nodes_that_share_a_machine_are_labelled_as_those_of_a_network)
{
    struct submission s;

    begin(&s);
    for (int i = 0; i < 4; i++)
        snprintf(s.nodes[i].at.host, sizeof s.nodes[i].at.host, "10.0.0.%d", i);
    assert_false(has_line(&s, "bytes as on a network"));
    strcpy(s.nodes[3].at.host, "10.0.0.1");
    assert_true(has_line(&s, "bytes as on a network"));
    s.settings.local_path = LOCAL_PATH_OFF;
    assert_false(has_line(&s, "bytes as on a network"));
    submission_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mean_of_batches_counts_a_worker_with_its_samples_and_one_of_the_test_set_does_not),
        cmocka_unit_test(the_mean_over_the_workers_leaves_out_servers_and_lost_workers),
        cmocka_unit_test(equal_workers_need_no_line_with_their_mean_and_a_number_that_none_has_is_null),
        cmocka_unit_test(workers_that_end_different_are_named_unless_the_rule_means_it),
        cmocka_unit_test(workers_whose_exchanges_combined_nothing_get_one_warning_and_equal_ones_too),
        cmocka_unit_test(a_rule_that_fails_in_asgd_is_pointed_to_the_limit_that_refuses_it),
        cmocka_unit_test(a_codec_that_takes_most_of_the_time_is_reported_as_the_bottleneck),
        cmocka_unit_test(bytes_of_nodes_that_share_a_machine_are_labelled_as_those_of_a_network),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
