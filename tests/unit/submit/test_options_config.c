#include "submit/options/options_config.h"

#include <unistd.h>

#include "tests/unit/unit.h"

static struct options o;
static struct err e;
static const char *folder;

/* Parses the arguments of a verb, with --config FILE where the file has this text. */
static int parse_as(uint64_t verb, const char *text, const char *const *arguments)
{
    static struct unit_argv argv; /* operands point into it */
    static char path[128];
    const char *all[16] = {"--config", path};
    size_t n = 2;
    int rc;

    folder = unit_folder();
    snprintf(path, sizeof path, "%s/job.json", folder);
    assert_ok(file_write(path, text, strlen(text), 0644, &e));
    while (*arguments)
        all[n++] = *arguments++;
    unit_argv(&argv, "submit", all);
    options_clear(&o);
    rc = options_parse(&o, verb, argv.n, argv.of, &e);
    unit_remove(folder);
    return rc;
}

#define PARSE(text, ...)    parse_as(FOR_SUBMIT, text, (const char *const[]){__VA_ARGS__, NULL})
#define SIMULATE(text, ...) parse_as(FOR_SIMULATE, text, (const char *const[]){__VA_ARGS__, NULL})

TEST(a_file_sets_options_by_their_names)
{
    assert_ok(
        PARSE("{\"$schema\":\"job.schema.json\",\"codec\":\"fedavg\",\"node_count\":3,\"local-steps\":7,"
              "\"learn_rate\":0.5,\"non_iid\":true,\"parallel_sgd\":\"asgd\",\"no_queue\":false}",
              "-q"));
    assert_string_equal(o.codec, "fedavg");
    assert_int_equal(o.settings.node_count, 3);
    assert_int_equal(o.settings.local_steps, 7);
    assert_true(o.settings.learn_rate == 0.5);
    assert_true(o.settings.non_iid);
    assert_int_equal(o.settings.sync, SYNC_ASGD);
    assert_ok(PARSE("{\"sync\":\"asgd\",\"round_timeout_s\":5}", "-q")); /* as in the settings of run.json */
    assert_int_equal(o.settings.sync, SYNC_ASGD);
    assert_true(o.settings.round_timeout_s == 5);
}

TEST(the_command_line_goes_before_the_file)
{
    json_t *texts;

    assert_ok(PARSE("{\"epochs\":3,\"seed\":4}", "--epochs", "5"));
    assert_int_equal(o.settings.epochs, 5);
    assert_int_equal(o.settings.seed, 4);
    assert_ok(PARSE("{\"epochs\":3}", "--epochs", "5", "--set", "epochs=6"));
    assert_int_equal(o.settings.epochs, 6);
    texts = options_json(&o); /* a run that repeats this one has the value, not the option that set it */
    assert_string_equal(json_string_value(json_object_get(texts, "epochs")), "6");
    assert_null(json_object_get(texts, "set"));
    assert_null(json_object_get(texts, "config"));
    json_decref(texts);
    assert_ok(PARSE("{\"gradient_descent\":\"adam\",\"workers\":\"w.json\"}", "--optimizer", "adamw",
                    "--worker_hosts", "a:1,b:2"));
    assert_int_equal(o.settings.optimizer, OPTIMIZER_ADAMW);
    assert_string_equal(o.worker_hosts, "a:1,b:2");
    assert_string_equal(o.workers, "");
}

TEST(options_from_a_file_count_as_given)
{
    assert_ok(PARSE("{\"gradient_descent\":\"adam\"}", "-q"));
    assert_true(o.settings.learn_rate == 0.001); /* adam's own */
    assert_ok(PARSE("{\"gradient_descent\":\"adam\",\"learn_rate\":0.05}", "-q"));
    assert_true(o.settings.learn_rate == 0.05);
    assert_ok(PARSE("{\"max_steps\":10}", "-q")); /* without epochs, as many as that takes */
    assert_true(o.settings.epochs > 1000);
}

TEST(a_mistake_is_reported_with_its_place)
{
    static const struct {
        const char *text, *message, *hint;
    } cases[] = {
        {"{\"epoch\":2}", "/epoch is no option of a job", "Did you mean \"epochs\"?"},
        {"{\"lrate\":0.1}", "/lrate is no option of a job", "Did you mean \"learn_rate\"?"},
        {"{\"nodes\":2}", "/nodes is no option of a job", "Did you mean \"node_count\"?"},
        {"{\"link\":\"any,0s\"}", "/link is for other verbs", ""},
        {"{\"json\":true}", "/json is no option", ""},
        {"{\"config\":\"x\"}", "/config is no option", ""},
        {"{\"epochs\":\"2\"}", "/epochs: not an integer", ""},
        {"{\"epochs\":2.5}", "/epochs: not an integer", ""},
        {"{\"epochs\":0}", "0 is not between 1 and", ""},
        {"{\"learn_rate\":true}", "/learn_rate: not a number", ""},
        {"{\"non_iid\":\"yes\"}", "/non_iid: not true or false", ""},
        {"{\"codec\":[\"a\"]}", "/codec: not a string", ""},
        {"{\"codec\":\"\"}", "empty", ""},
        {"{\"gradient_descent\":\"adm\"}", "\"adm\" is not one of", "Did you mean adam?"},
        {"{\"learn_rate\":1,\"learn-rate\":2}", "the option is given twice", ""},
        {"[1]", "not an object", ""},
        {"{\"a\":1,", "job.json:1:", ""},
        {"{\"facts\":{}}", "/facts/options: missing", ""},
        {"{\"facts\":{\"options\":{\"exec\":\"f.c\"}}}", "the job ran an executor", ""},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        e.hint[0] = '\0';
        assert_int_equal(PARSE(cases[i].text, "-q"), ERR_CONFIG);
        assert_error_has("job.json");
        assert_error_has(cases[i].message);
        assert_non_null(strstr(e.hint, cases[i].hint));
    }
    assert_int_equal(PARSE("{}", "--resume", "x"), ERR_USAGE);
    assert_int_equal(PARSE("{}", "--set", "output=x"), ERR_USAGE);
    assert_error_has("--set output=x: not an option of the job itself");
}

#define RUN(rest)                                                                                            \
    "{\"id\":\"j-1\",\"settings\":{\"path\":\"tree\",\"server_count\":2,\"steps_per_epoch\":9},"             \
    "\"facts\":{\"options\":{\"node_count\":\"3\",\"codec\":\"fedavg\",\"path\":\"auto\",\"seed\":\"7\","    \
    "\"non-iid\":\"no\",\"workers\":\"/nowhere/workers.json\"}" rest "}}"

#define SIMULATION                                                                                           \
    ",\"simulation\":{\"options\":{\"gradients\":5,\"link\":\"any,0s\",\"step_time\":\"\",\"eval_time_s\":"  \
    "0,"                                                                                                     \
    "\"codec_rate_mbps\":3},\"result\":{\"step_time\":\"0.5,0.25\",\"eval_time_s\":2,\"codec_rate_mbps\":4}" \
    "}"

TEST(a_simulation_is_repeated_with_the_times_it_measured)
{
    assert_ok(SIMULATE(RUN(SIMULATION), "-q"));
    assert_int_equal(o.settings.node_count, 3);
    assert_int_equal(o.settings.seed, 7);
    assert_int_equal(o.settings.path, COMBINE_PATH_TREE); /* which auto chose */
    assert_int_equal(o.servers, 2);
    assert_int_equal(o.steps, 9);
    assert_int_equal(o.simulation.gradients, 5);
    assert_string_equal(o.simulation.step_time, "0.5,0.25");
    assert_true(o.simulation.eval_time_s == 2);
    assert_true(o.simulation.codec_rate_mbps == 3); /* given then */
}

TEST(a_changed_run_chooses_its_path_anew)
{
    assert_ok(SIMULATE(RUN(SIMULATION), "--node_count", "2"));
    assert_int_equal(o.settings.node_count, 2);
    assert_int_equal(o.settings.path, COMBINE_PATH_AUTO);
}

TEST(a_run_whose_files_are_gone_is_refused)
{
    assert_int_equal(PARSE(RUN(""), "-q"), ERR_NOT_FOUND);
    assert_error_has("--workers was /nowhere/workers.json");
}

TEST(the_schema_has_each_option_of_a_job_with_its_type)
{
    json_t *schema = options_schema(), *all = json_object_get(schema, "properties");
    json_t *epochs = json_object_get(all, "epochs");

    assert_string_equal(json_string_value(json_object_get(epochs, "type")), "integer");
    assert_int_equal(json_integer_value(json_object_get(epochs, "minimum")), 1);
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(json_object_get(all, "sync"), "enum"), 1)), "asgd");
    assert_non_null(json_object_get(all, "link"));
    assert_non_null(json_object_get(all, "compress_down"));
    assert_null(json_object_get(all, "set"));
    assert_null(json_object_get(all, "config"));
    assert_null(json_object_get(all, "json"));
    json_decref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_sets_options_by_their_names),
        cmocka_unit_test(the_command_line_goes_before_the_file),
        cmocka_unit_test(options_from_a_file_count_as_given),
        cmocka_unit_test(a_mistake_is_reported_with_its_place),
        cmocka_unit_test(a_simulation_is_repeated_with_the_times_it_measured),
        cmocka_unit_test(a_changed_run_chooses_its_path_anew),
        cmocka_unit_test(a_run_whose_files_are_gone_is_refused),
        cmocka_unit_test(the_schema_has_each_option_of_a_job_with_its_type),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
