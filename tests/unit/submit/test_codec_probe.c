#include "submit/codecs/codec_probe.h"

#include "tests/lib/cluster.h"
#include "tests/unit/unit.h"

static struct err e;

/* What the process that inspects a codec reports to job_submit. */
struct report {
    struct codec_facts facts;
    struct err e;
};

static int probe(struct codec_facts *f, const char *codec)
{
    char path[512];

    snprintf(path, sizeof path, "%s/tests/codecs/%s.so", test_build_dir(), codec);
    return codec_probe(f, path, "", &e);
}

/* Probes a codec that writes these bytes into the pipe itself and then hangs. */
static int probe_forged(struct codec_facts *f, const struct report *r)
{
    const char *folder = unit_folder();
    char path[512];
    int rc;

    snprintf(path, sizeof path, "%s/report", folder);
    assert_ok(file_write(path, r, sizeof *r, 0600, &e));
    setenv("FORGED_REPORT", path, 1);
    rc = probe(f, "forged");
    unsetenv("FORGED_REPORT");
    unit_remove(folder);
    return rc;
}

TEST(the_description_of_a_codec_reaches_the_submitter)
{
    struct codec_facts f;

    assert_ok(probe(&f, "short_message"));
    assert_string_equal(f.name, "short_message");
    assert_string_equal(f.source, "a test");
    assert_true(f.has_reply && f.has_adopt && f.sends_grads);
    assert_false(f.has_events || f.sends_params || f.per_block);
}

TEST(a_codec_that_hangs_is_killed_once_its_description_is_complete)
{
    struct report r = {.facts = {.name = "forged", .has_events = true}};
    struct codec_facts f;

    assert_ok(probe_forged(&f, &r));
    assert_string_equal(f.name, "forged");
}

TEST(endless_texts_are_cut_off)
{
    struct report r = {.facts = {.name = "forged", .has_events = true}};
    struct codec_facts f;

    memset(r.facts.source, 'x', sizeof r.facts.source);
    memset(r.facts.list, 'x', sizeof r.facts.list);
    assert_ok(probe_forged(&f, &r));
    assert_int_equal(strlen(f.source), sizeof f.source - 1);
    assert_int_equal(strlen(f.list), sizeof f.list - 1);
    memset(r.e.text, 'x', sizeof r.e.text);
    r.e.code = ERR_CONFIG;
    assert_int_equal(probe_forged(&f, &r), ERR_CONFIG);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
}

TEST(values_unknown_to_job_submit_are_refused)
{
    const struct report good = {.facts = {.name = "forged", .has_events = true}};
    struct report r = good;
    struct codec_facts f;

    r.facts.compression = (enum codec_compression)(CODEC_COMPRESSION_MAX + 1);
    assert_int_equal(probe_forged(&f, &r), ERR_CODEC);
    assert_error_has("its own code has written to");
    r = good;
    r.facts.limits = CODEC_LIMITS_MAX + 1;
    assert_int_equal(probe_forged(&f, &r), ERR_CODEC);
    r = good;
    memset(&r.facts.sends_grads, 17, 1);
    assert_int_equal(probe_forged(&f, &r), ERR_CODEC);
    r = good;
    memset(r.facts.name, '/', sizeof r.facts.name);
    assert_int_equal(probe_forged(&f, &r), ERR_CODEC);
    r = good;
    r.e.code = 1; /* neither a failure nor none */
    assert_int_equal(probe_forged(&f, &r), ERR_CODEC);
    assert_error_has("its own code has written to");
}

/* A model of 2 x 3 weights, 2 biases and batch_norm, 8 + 4 trained numbers and 4 statistics; a job of three
 * workers, each block held by two of them. */
static int try_open(const char *path, const char *options, bool is_of_servers)
{
    static struct model_spec model;
    json_t *doc = json_loads("{\"version\": 1, \"name\": \"m\", \"input\": [3], \"loss\": "
                             "\"softmax_cross_entropy\", \"layers\": [{\"kind\": \"dense\", \"units\": "
                             "2}, {\"kind\": \"batch_norm\"}]}",
                             0, NULL);
    struct settings set;
    struct blocks blocks;
    int rc;

    assert_ok(model_spec_parse(&model, doc, &e));
    settings_default(&set);
    set.node_count = 3;
    set.redundancy = 2;
    set.server_count = is_of_servers;
    set.steps_per_epoch = 10;
    assert_ok(blocks_init(&blocks, BLOCKS_IID, 3, 2, &e));
    rc = codec_probe_open(
        path, options,
        &(struct open_check){.set = &set, .model = &model, .blocks = &blocks, .is_of_servers = is_of_servers},
        &e);
    blocks_clear(&blocks);
    model_spec_clear(&model);
    json_decref(doc);
    return rc;
}

static int try_refuse_open(const char *options, bool is_of_servers)
{
    char path[512];

    snprintf(path, sizeof path, "%s/tests/codecs/refuse_open.so", test_build_dir());
    return try_open(path, options, is_of_servers);
}

TEST(a_codec_that_refuses_the_job_in_open_has_seen_the_job)
{
    assert_int_equal(try_refuse_open("what=refuses", false), ERR_CODEC);
    assert_string_equal(e.text,
                        "codec refuse_open: node 0 of 3 workers and 0 servers, block 1 held, 16 numbers, 16 "
                        "own, layer1.batch_norm.running_var at 14 (2)");
    assert_int_equal(try_refuse_open("what=refuses", true), ERR_CODEC);
    assert_error_has("node -2 of 3 workers and 1 servers, block 1 not held");
}

TEST(an_open_that_cannot_be_tried_is_not_checked_before_the_nodes_call_it)
{
    assert_ok(try_refuse_open("what=allocates", false));
    if (!IS_SANITIZED) /* prints its finding */
        assert_ok(try_refuse_open("what=crashes", false));
}

TEST(built_in_rules_refuse_running_statistics_and_numbers_that_do_not_fit)
{
    static const struct {
        const char *codec, *options, *why; /* NULL: accepted */
    } cases[] = {{"laq", "", "running statistics"},
                 {"dc_asgd", "", "running statistics"},
                 {"dc_qsgd", "", "running statistics"},
                 {"loss_aware", "", "running statistics"},
                 {"downpour", "", "running statistics"},
                 {"sync_replicas", "backups=3", "backups=3 leave no gradient"},
                 {"sync_replicas", "backups=1", NULL},
                 {"ccdc", "", NULL},
                 {"easgd", "", NULL},
                 {"fedadam", "", NULL},
                 {"gossip", "", NULL}};
    char path[512];

    for (size_t i = 0; i < N_OF(cases); i++) {
        snprintf(path, sizeof path, "%s/codecs/%s.so", test_build_dir(), cases[i].codec);
        if (!cases[i].why) {
            assert_ok(try_open(path, cases[i].options, false));
            continue;
        }
        assert_int_equal(try_open(path, cases[i].options, false), ERR_CODEC);
        assert_error_has(cases[i].why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_description_of_a_codec_reaches_the_submitter),
        cmocka_unit_test(a_codec_that_hangs_is_killed_once_its_description_is_complete),
        cmocka_unit_test(endless_texts_are_cut_off),
        cmocka_unit_test(values_unknown_to_job_submit_are_refused),
        cmocka_unit_test(a_codec_that_refuses_the_job_in_open_has_seen_the_job),
        cmocka_unit_test(an_open_that_cannot_be_tried_is_not_checked_before_the_nodes_call_it),
        cmocka_unit_test(built_in_rules_refuse_running_statistics_and_numbers_that_do_not_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
