#include "shared/plugin/codec_load.h"

#include <dlfcn.h>

#include "shared/base/file.h"
#include "tests/lib/cluster.h"
#include "tests/unit/unit.h"

static const char *path_of(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s.so", test_build_dir(), name);
    return path;
}

TEST(every_built_in_codec_opens_and_states_its_source_and_cost)
{
    static const char *const names[] = {"allreduce", "doublebuffer", "doublesqueeze", "dummy", "easgd",
                                        "fedavg",    "fedpaq",       "gossip",        "plain", "ps"};

    for (size_t i = 0; i < N_OF(names); i++) {
        struct codec_library l;
        struct err e = {0};
        char name[64];

        snprintf(name, sizeof name, "codecs/%s", names[i]);
        assert_ok(codec_library_open(&l, path_of(name), &e));
        assert_string_equal(l.plugin->name, names[i]);
        assert_true(l.plugin->source && l.plugin->source[0]);
        assert_true(l.plugin->combine || (codec_more(l.plugin)->cost && codec_more(l.plugin)->cost[0]));
        codec_library_close(&l);
    }
}

TEST(another_abi_version_is_refused_naming_both)
{
    struct codec_library l;
    struct err e = {0};

    assert_int_equal(codec_library_open(&l, path_of("tests/codecs/old_abi"), &e), ERR_CODEC);
    assert_error_has("ABI 0");
    assert_error_has("ABI 11");
}

TEST(a_file_that_is_no_codec_is_refused)
{
    struct codec_library l;
    struct err e = {0};

    assert_int_equal(codec_library_open(&l, "Makefile", &e), ERR_CODEC);
    assert_error_has("Makefile: not an ELF file");
    assert_non_null(strstr(e.hint, "A codec is a C file"));
    assert_int_equal(codec_library_open(&l, "/nowhere.so", &e), ERR_CODEC);
    assert_error_has("/nowhere.so");
}

/* Like objects linked with -z nodelete, or in use by threads. */
TEST(a_codec_whose_object_stays_loaded_is_not_mistaken_for_the_next_one)
{
    struct codec_library stays, next;
    char copy[FILE_FD_PATH];
    struct err e;

    assert_ok(codec_library_open(&stays, path_of("codecs/fedavg"), &e));
    file_fd_path(copy, stays.fd);
    assert_non_null(dlopen(copy, RTLD_NOLOAD | RTLD_NODELETE | RTLD_LAZY));
    codec_library_close(&stays);
    assert_ok(codec_library_open(&next, path_of("codecs/plain"), &e));
    assert_string_equal(next.plugin->name, "plain");
    codec_library_close(&next);
}

TEST(a_value_outside_an_enum_of_codec_h_is_refused)
{
    struct codec_library l;
    struct err e = {0};

    assert_int_equal(codec_library_open(&l, path_of("tests/codecs/bad_enum"), &e), ERR_CODEC);
    assert_error_has("codec bad_enum: .compression is 6, and codec_events.h lists values up to 5");
}

TEST(an_excessive_state_is_refused)
{
    struct codec_library l;
    struct err e = {0};

    assert_int_equal(codec_library_open(&l, path_of("tests/codecs/huge_state"), &e), ERR_CODEC);
    assert_error_has(
        "codec huge_state: .state_size is 18446744073709551615 bytes, expected at most 1073741824");
}

TEST(a_codec_without_ssgd_or_asgd_is_refused_in_such_a_job)
{
    static const struct {
        unsigned limits;
        bool is_sync;
        const char *expected, *hint;
    } refused[] = {
        {CODEC_NO_SSGD, true, "codec x is asynchronous; it does not support ssgd",
         "Take --parallel_sgd asgd."},
        {CODEC_NO_ASGD, false,
         "codec x needs the message of every worker in an exchange; it does not support asgd", ""},
    };

    for (size_t i = 0; i < N_OF(refused); i++) {
        struct codec_job job = {
            .n_workers = 2, .n_blocks = 2, .redundancy = 1, .is_sync = refused[i].is_sync};
        struct err e = {0};

        assert_int_equal(codec_check_limits("x", refused[i].limits, &job, &e), ERR_CODEC);
        assert_error_has(refused[i].expected);
        assert_string_equal(e.hint, refused[i].hint);
        job.is_sync = !job.is_sync;
        assert_ok(codec_check_limits("x", refused[i].limits, &job, &e));
    }
}

TEST(several_servers_refuse_a_limit_of_the_norm_where_no_node_has_the_whole_gradient)
{
    struct codec_job job = {.n_workers = 2, .n_blocks = 2, .redundancy = 1, .clips = true};
    struct err e = {0};

    for (int is_sync = 0; is_sync < 2; is_sync++)
        for (job.n_servers = 0; job.n_servers <= 2; job.n_servers++) {
            bool has_several = job.n_servers > 1;

            job.is_sync = is_sync;
            assert_ok(codec_check_limits("x", 0, &job, &e));
            assert_int_equal(codec_check_limits("x", CODEC_CLIPS_A_RANGE, &job, &e),
                             has_several ? ERR_CODEC : 0);
            if (has_several)
                assert_error_has("no node has the whole gradient, whose norm --clip-norm limits");
            assert_int_equal(codec_check_limits("x", CODEC_CLIPS_A_RANGE_IN_ASGD, &job, &e),
                             has_several && !is_sync ? ERR_CODEC : 0);
        }
    job.n_servers = 2;
    job.clips = false;
    assert_ok(codec_check_limits("x", CODEC_CLIPS_A_RANGE, &job, &e));
}

TEST(an_executor_is_loaded_with_its_name_and_function)
{
    struct codec_library l;
    struct err e = {0};

    assert_ok(codec_library_open_executor(&l, path_of("examples/executors/hello"), &e));
    assert_string_equal(l.executor->name, "hello");
    assert_non_null(l.executor->run);
    assert_null(l.plugin);
    codec_library_close(&l);
}

TEST(a_codec_in_place_of_an_executor_is_refused_and_vice_versa_with_the_command_to_run_it)
{
    struct codec_library l;
    struct err e = {0};

    assert_int_equal(codec_library_open_executor(&l, path_of("codecs/fedavg"), &e), ERR_CODEC);
    assert_error_has("not an executor: it has no symbol executor_plugin (see EXECUTOR_PLUGIN in executor.h)");
    assert_non_null(strstr(e.hint, "job_submit --codec FILE"));
    assert_int_equal(codec_library_open(&l, path_of("examples/executors/hello"), &e), ERR_CODEC);
    assert_error_has("not a codec: it has no symbol codec_plugin (see CODEC_PLUGIN in codec.h)");
    assert_non_null(strstr(e.hint, "job_submit run --exec FILE"));
    assert_int_equal(codec_library_open_executor(&l, "Makefile", &e), ERR_CODEC);
    assert_error_has("Makefile: not an ELF file");
    assert_non_null(strstr(e.hint, "An executor is a C file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_servers_refuse_a_limit_of_the_norm_where_no_node_has_the_whole_gradient),
        cmocka_unit_test(every_built_in_codec_opens_and_states_its_source_and_cost),
        cmocka_unit_test(another_abi_version_is_refused_naming_both),
        cmocka_unit_test(a_file_that_is_no_codec_is_refused),
        cmocka_unit_test(a_codec_whose_object_stays_loaded_is_not_mistaken_for_the_next_one),
        cmocka_unit_test(a_value_outside_an_enum_of_codec_h_is_refused),
        cmocka_unit_test(an_excessive_state_is_refused),
        cmocka_unit_test(a_codec_without_ssgd_or_asgd_is_refused_in_such_a_job),
        cmocka_unit_test(an_executor_is_loaded_with_its_name_and_function),
        cmocka_unit_test(
            a_codec_in_place_of_an_executor_is_refused_and_vice_versa_with_the_command_to_run_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
