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
        s->nodes[i].is_ended = true;
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

    run_table(f, s);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_over_the_workers_leaves_out_servers_and_lost_workers),
        cmocka_unit_test(equal_workers_need_no_line_with_their_mean_and_a_number_that_none_has_is_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
