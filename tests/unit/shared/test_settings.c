#include "shared/job/settings.h"

#include "shared/base/json.h"
#include "tests/unit/unit.h"

#define REQUIRED                                                                                             \
    "\"version\": 1, \"name\": \"run-1\", \"seed\": 7, \"node_count\": 4, \"codec\": \"ring\", \"epochs\": " \
    "3, "                                                                                                    \
    "\"batch_size\": 32, \"dataset\": \"digits\", \"model\": \"softmax\""

static int parse(struct settings *s, const char *text, struct err *e)
{
    json_t *doc;
    int rc;

    if (json_parse(&doc, text, strlen(text), "settings", e) < 0)
        return e->code;
    rc = settings_parse(s, doc, e);
    json_decref(doc);
    return rc;
}

TEST(omitted_settings_have_their_defaults)
{
    struct settings s, d;
    struct err e;

    settings_default(&d);
    assert_ok(parse(&s, "{" REQUIRED "}", &e));
    assert_int_equal(s.node_count, 4);
    assert_int_equal(s.redundancy, d.redundancy);
    assert_int_equal(s.sync, d.sync);
    assert_true(s.learn_rate == d.learn_rate);
}

TEST(servers_default_to_the_codec_of_the_workers)
{
    struct settings s;
    struct err e;

    assert_ok(parse(&s, "{" REQUIRED "}", &e));
    assert_string_equal(s.server_codec, "ring");
    assert_ok(parse(&s, "{" REQUIRED ", \"server_codec\": \"ps\"}", &e));
    assert_string_equal(s.server_codec, "ps");
}

TEST(non_iid_is_an_alias_of_label_sorted)
{
    struct settings s;
    struct err e;

    assert_ok(parse(&s, "{" REQUIRED "}", &e));
    assert_string_equal(s.partition, "iid");
    assert_ok(parse(&s, "{" REQUIRED ", \"non_iid\": true}", &e));
    assert_string_equal(s.partition, "label_sorted");
    assert_ok(parse(&s, "{" REQUIRED ", \"partition\": \"shards:2\", \"transform\": \"centre\"}", &e));
    assert_string_equal(s.partition, "shards:2");
    assert_string_equal(s.transform, "centre");
}

TEST(settings_survive_serialization)
{
    struct settings s, t;
    json_t *doc, *again;
    struct err e;

    assert_ok(parse(&s, "{" REQUIRED ", \"non_iid\": true, \"learn_rate\": 0.001, \"sync\": \"asgd\"}", &e));
    assert_int_equal(s.sync, SYNC_ASGD);
    doc = settings_json(&s);
    assert_string_equal(json_string_value(json_object_get(doc, "sync")), "asgd");
    assert_ok(settings_parse(&t, doc, &e));
    again = settings_json(&t);
    assert_true(json_equal(doc, again));
    json_decref(doc);
    json_decref(again);
}

TEST(errors_are_reported_with_their_path)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"{}", "/version: missing"},
        {"[]", "not an object"},
        {"{" REQUIRED ", \"batchsize\": 3}", "/batchsize: unknown key; did you mean \"batch_size\"?"},
        {"{" REQUIRED ", \"learn_rate\": 0}", "/learn_rate"},
        {"{" REQUIRED ", \"sync\": \"sgd\"}", "/sync: \"sgd\" is not one of ssgd|asgd"},
        {"{" REQUIRED ", \"block_assignment\": \"iid|dup\"}", "/block_assignment"},
        {"{" REQUIRED ", \"gradient_descent\": \"adamm\"}",
         "/gradient_descent: \"adamm\" is not one of sgd|"},
        {"{" REQUIRED ", \"schedule\": \"cosine:2\"}", "/schedule: cosine: \"2\" is not floor=SHARE"},
        {"{" REQUIRED ", \"momentum\": 1}", "/momentum"},
        {"{" REQUIRED ", \"on_nonfinite\": \"go\"}", "/on_nonfinite"},
        {"{" REQUIRED ", \"redundancy\": 5}", "/block_assignment: redundancy 5 does not fit 4 workers"},
        {"{" REQUIRED ", \"block_ratio\": \"2,1\"}",
         "/block_ratio: \"2,1\" has 2 numbers, the job 4 workers"},
        {"{" REQUIRED ", \"block_ratio\": \"2,1,1,1\", \"redundancy\": 2}",
         "/block_ratio: each block has one holder"},
        {"{" REQUIRED ", \"block_ratio\": \"2,1,1,1\", \"block_assignment\": \"dup\"}",
         "/block_ratio: --block_assignment assigns the blocks to workers, too"},
        {"{" REQUIRED ", \"redundancy\": 3, \"block_assignment\": \"dup\"}", "/block_assignment: dup needs"},
        {"{" REQUIRED ", \"allreduce\": \"mpi\"}",
         "/allreduce: mpi is the all-reduce of --transport mpi, and tcp has none"},
        {"{" REQUIRED ", \"allreduce\": \"mpi\", \"transport\": \"mpi\", \"path\": \"tree\"}",
         "/path: tree sums inside each machine first"},
        {"{" REQUIRED ", \"allreduce\": \"mpi\", \"transport\": \"mpi\", \"compress\": \"fp16\"}",
         "/compress: with --allreduce mpi MPI sums floats"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct settings s;
        struct err e;

        assert_int_equal(parse(&s, cases[i].text, &e), ERR_CONFIG);
        assert_error_has(cases[i].expected);
    }
}

TEST(a_number_of_steps_ends_a_job_before_its_epochs_but_not_after)
{
    struct settings s;

    settings_default(&s);
    s.epochs = 3;
    s.steps_per_epoch = 10;
    assert_int_equal(settings_steps(&s), 30);
    s.max_steps = 12;
    assert_int_equal(settings_steps(&s), 12);
    s.max_steps = 31;
    assert_int_equal(settings_steps(&s), 30);
}

/* A checkpoint that was written before there were betas. */
TEST(a_document_without_betas_has_those_of_its_optimizer)
{
    static const char text[] =
        "{\"version\":1,\"name\":\"a\",\"seed\":1,\"node_count\":1,\"codec\":\"plain\","
        "\"epochs\":1,\"batch_size\":1,\"dataset\":\"digits\",\"model\":\"softmax\","
        "\"gradient_descent\":\"adam\"}";
    struct settings now;
    json_t *then;
    struct err e;

    assert_ok(json_parse(&then, text, strlen(text), "settings", &e));
    assert_ok(settings_parse(&now, then, &e));
    assert_true(now.beta1 == 0.9 && now.beta2 == 0.999 && now.epsilon == 1e-8);
    assert_ok(settings_check_resume(&now, then, &e));
    now.beta2 = 0.95;
    assert_int_equal(settings_check_resume(&now, then, &e), ERR_CONFIG);
    assert_error_has("beta2 was 0.999 in the earlier job, and is 0.95 now");
    json_decref(then);
}

TEST(names_must_be_valid_file_names)
{
    static const char *const bad[] = {"", "a/b", "a b", "a\nb", "\xc3\xa4"};

    for (size_t i = 0; i < N_OF(bad); i++) {
        struct settings s;
        struct err e;

        settings_default(&s);
        snprintf(s.name, sizeof s.name, "%s", bad[i]);
        assert_int_equal(settings_check(&s, &e), ERR_CONFIG);
        assert_error_has("/name");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(omitted_settings_have_their_defaults),
        cmocka_unit_test(servers_default_to_the_codec_of_the_workers),
        cmocka_unit_test(non_iid_is_an_alias_of_label_sorted),
        cmocka_unit_test(settings_survive_serialization),
        cmocka_unit_test(errors_are_reported_with_their_path),
        cmocka_unit_test(a_number_of_steps_ends_a_job_before_its_epochs_but_not_after),
        cmocka_unit_test(a_document_without_betas_has_those_of_its_optimizer),
        cmocka_unit_test(names_must_be_valid_file_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
