#include "shared/plugin/executor_load.h"

#include "tests/lib/cluster.h"
#include "tests/unit/unit.h"

static struct err e;

static const char *path_of(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s.so", test_build_dir(), name);
    return path;
}

TEST(an_executor_is_loaded_with_its_name_and_function)
{
    struct codec_library l;

    assert_ok(executor_library_open(&l, path_of("examples/executors/hello"), &e));
    assert_string_equal(l.executor->name, "hello");
    assert_non_null(l.executor->run);
    assert_null(l.plugin);
    codec_library_close(&l);
}

TEST(a_codec_in_place_of_an_executor_is_refused_and_vice_versa_with_the_command_to_run_it)
{
    struct codec_library l;

    assert_int_equal(executor_library_open(&l, path_of("codecs/fedavg"), &e), ERR_CODEC);
    assert_error_has("not an executor: it has no symbol executor_plugin (see EXECUTOR_PLUGIN in executor.h)");
    assert_non_null(strstr(e.hint, "job_submit --codec FILE"));
    assert_int_equal(codec_library_open(&l, path_of("examples/executors/hello"), &e), ERR_CODEC);
    assert_error_has("not a codec: it has no symbol codec_plugin (see CODEC_PLUGIN in codec.h)");
    assert_non_null(strstr(e.hint, "job_submit run --exec FILE"));
    assert_int_equal(executor_library_open(&l, "Makefile", &e), ERR_CODEC);
    assert_error_has("Makefile: not an ELF file");
    assert_non_null(strstr(e.hint, "An executor is a C file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_executor_is_loaded_with_its_name_and_function),
        cmocka_unit_test(
            a_codec_in_place_of_an_executor_is_refused_and_vice_versa_with_the_command_to_run_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
