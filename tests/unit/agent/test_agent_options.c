#include "agent/base/agent_options.h"

#include "agent/access/codec_policy.h"
#include "shared/trainer/trainer_isolation.h"
#include "tests/unit/unit.h"

static int parse(struct agent_options *o, struct err *e, const char *const *args)
{
    static struct unit_argv argv; /* opt.hosts points into it */

    unit_argv(&argv, "agent", args);
    return agent_options_parse(o, AGENT_RUN, argv.n, argv.of, e);
}

#define PARSE(...) parse(&o, &e, (const char *const[]){__VA_ARGS__, NULL})

TEST(without_options_the_defaults_apply)
{
    struct agent_options o;
    struct err e;
    const char *none[] = {NULL};

    assert_ok(parse(&o, &e, none));
    assert_int_equal(o.port, 15387);
    assert_string_equal(o.bind, "127.0.0.1");
    assert_int_equal(o.queue, 16);
    assert_int_equal(o.keep, 64);
    assert_false(o.no_token);
    assert_int_equal(o.codecs, -1);
    assert_int_equal(o.trainers, -1);
    assert_int_equal(o.job_memory_gib, -1);
}

TEST(the_memory_limit_of_a_job_can_be_disabled)
{
    struct agent_options o;
    struct err e;

    assert_ok(PARSE("--job-memory", "0"));
    assert_int_equal(o.job_memory_gib, 0);
    assert_int_equal(PARSE("--job-memory", "-1"), ERR_USAGE);
}

TEST(the_codec_policy_is_one_of_three_values)
{
    struct agent_options o;
    struct err e;

    assert_ok(PARSE("--codecs", "allowlist", "--codec-list", "/x/list"));
    assert_int_equal(o.codecs, CODECS_ALLOWLIST);
    assert_string_equal(o.codec_list, "/x/list");
    assert_ok(PARSE("--codecs=builtin"));
    assert_int_equal(o.codecs, CODECS_BUILTIN);
    assert_int_equal(PARSE("--codecs", "alowlist"), ERR_USAGE);
    assert_error_has("--codecs: \"alowlist\" is not one of builtin|allowlist|any");
    assert_string_equal(e.hint, "Did you mean allowlist?");
    assert_int_equal(PARSE("--codecs", "2"), ERR_USAGE);
}

TEST(the_policy_for_training_programs_is_one_of_three_values)
{
    struct agent_options o;
    struct err e;

    assert_ok(
        PARSE("--trainers", "allowlist", "--trainer-list", "/x/list", "--trainer-python", "python3.12"));
    assert_int_equal(o.trainers, TRAINERS_ALLOWLIST);
    assert_string_equal(o.trainer_list, "/x/list");
    assert_string_equal(o.trainer_python, "python3.12");
    assert_int_equal(o.trainer_isolation, TRAINER_ISOLATION_NONE);
    assert_ok(PARSE("--trainers=none", "--trainer-isolation", "files", "--trainer-data", "/x"));
    assert_int_equal(o.trainers, TRAINERS_NONE);
    assert_int_equal(o.trainer_isolation, TRAINER_ISOLATION_FILES);
    assert_string_equal(o.trainer_data, "/x");
    assert_int_equal(PARSE("--trainers", "builtin"), ERR_USAGE);
    assert_error_has("--trainers: \"builtin\" is not one of none|allowlist|any");
}

TEST(option_values_follow_a_space_or_an_equals_sign_and_underscores_equal_hyphens)
{
    struct agent_options o;
    struct err e;

    assert_ok(
        PARSE("--port", "7", "--dir=/x", "--allow_host", "a", "--allow-host=b", "--no_token", "--keep=3"));
    assert_int_equal(o.port, 7);
    assert_string_equal(o.dir, "/x");
    assert_string_equal(o.allow_hosts[0], "a");
    assert_string_equal(o.allow_hosts[1], "b");
    assert_null(o.allow_hosts[2]);
    assert_true(o.no_token);
    assert_int_equal(o.keep, 3);
    assert_ok(PARSE("-h", "-V"));
    assert_true(o.wants_help && o.wants_version);
}

TEST(invalid_options_are_reported)
{
    struct agent_options o;
    struct err e;

    assert_int_equal(PARSE("--prot", "7"), ERR_USAGE);
    assert_error_has("unknown option --prot");
    assert_string_equal(e.hint, "Did you mean --port?");
    assert_int_equal(PARSE("--por", "7"), ERR_USAGE); /* no abbreviations */
    assert_string_equal(e.hint, "Did you mean --port?");
    assert_int_equal(PARSE("--frobnicate"), ERR_USAGE);
    assert_int_equal(PARSE("--port"), ERR_USAGE);
    assert_error_has("needs a value");
    assert_int_equal(PARSE("--port", "65536"), ERR_USAGE);
    assert_int_equal(PARSE("--port", "7x"), ERR_USAGE);
    assert_int_equal(PARSE("--port="), ERR_USAGE);
    assert_int_equal(PARSE("--no-token=yes"), ERR_USAGE);
    assert_int_equal(PARSE("--dir", ""), ERR_USAGE);
    assert_int_equal(PARSE("start"), ERR_USAGE);
    assert_int_equal(PARSE("--", "--no-token"), ERR_USAGE);
    assert_error_has("\"--no-token\" is not an option");
    assert_int_equal(PARSE("-p"), ERR_USAGE);
    assert_int_equal(PARSE("--tls-cert", "a.pem"), ERR_USAGE);
    assert_error_has("--tls-cert and --tls-key are a pair");
    assert_int_equal(PARSE("--tls-key", "a.key"), ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_options_the_defaults_apply),
        cmocka_unit_test(the_memory_limit_of_a_job_can_be_disabled),
        cmocka_unit_test(the_codec_policy_is_one_of_three_values),
        cmocka_unit_test(the_policy_for_training_programs_is_one_of_three_values),
        cmocka_unit_test(option_values_follow_a_space_or_an_equals_sign_and_underscores_equal_hyphens),
        cmocka_unit_test(invalid_options_are_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
