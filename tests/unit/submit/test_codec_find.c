#include "submit/codecs/codec_find.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static struct err e;

static void touch(const char *folder, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    *strrchr(path, '/') = '\0';
    assert_ok(file_mkdirs(path, 0700, &e));
    path[strlen(path)] = '/';
    assert_ok(file_write(path, "x", 1, 0600, &e));
}

/* A folder that looks like a build's, and a folder of the user's own beside it. */
static const char *begin(void)
{
    const char *folder = unit_folder();
    static char path[PATH_MAX];

    touch(folder, "codecs/fedavg.so");
    touch(folder, "codecs/plain.so");
    touch(folder, "codecs/plain.c");
    touch(folder, "models/softmax.json");
    touch(folder, "mine/ring.c");
    touch(folder, "mine/plain.so");
    touch(folder, "mine/other.so");
    touch(folder, "mine/other.c");
    snprintf(path, sizeof path, "/nowhere:%s/mine", folder);
    setenv("PSGD_CODEC_PATH", path, 1);
    return folder;
}

static void end(const char *folder)
{
    unsetenv("PSGD_CODEC_PATH");
    unit_remove(folder);
}

TEST(a_name_is_searched_beside_the_program_first)
{
    const char *folder = begin();
    struct codec_file f;

    assert_ok(find_codec(&f, "plain", folder, NULL, &e));
    assert_non_null(strstr(f.path, "/codecs/plain.so"));
    assert_false(f.is_source);
    assert_true(f.is_built_in);
    assert_ok(find_codec(&f, "ring", folder, NULL, &e));
    assert_non_null(strstr(f.path, "/mine/ring.c"));
    assert_true(f.is_source && !f.is_built_in);
    end(folder);
}

TEST(the_source_of_compiled_and_built_in_codecs_is_known)
{
    static const struct {
        const char *codec, *source; /* the end of each */
    } cases[] = {
        {"plain", "/codecs/plain.c"},
        {"fedavg", ""},
        {"ring", "/mine/ring.c"},
        {"other", ""},
    };
    const char *folder = begin();
    struct codec_file f;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_ok(find_codec(&f, cases[i].codec, folder, NULL, &e));
        if (cases[i].source[0])
            assert_true(file_has_ending(f.source, cases[i].source));
        else
            assert_string_equal(f.source, "");
    }
    end(folder);
}

TEST(an_unknown_codec_is_reported_with_the_nearest_and_the_list)
{
    char names[FIND_NAMES_MAX][FIND_NAME_LEN];
    const char *folder = begin();
    static const char *const also[] = {"dc", "gradcode", NULL};
    struct codec_file f;

    assert_int_equal(find_codec(&f, "fedvg", folder, NULL, &e), ERR_CODEC);
    assert_error_has("did you mean \"fedavg\"?");
    assert_int_equal(find_codec(&f, "gradcod", folder, also, &e), ERR_CODEC);
    assert_error_has("did you mean \"gradcode\"?");
    assert_non_null(strstr(e.hint, " fedavg ")); /* the codecs of ./codecs are included too */
    assert_non_null(strstr(e.hint, " plain "));
    assert_non_null(strstr(e.hint, " ring "));
    assert_true(find_codecs(names, folder) >= 3);
    assert_true(strcmp(names[0], names[1]) < 0); /* sorted, without duplicates */
    assert_int_equal(find_codec(&f, "something_else", folder, NULL, &e), ERR_CODEC);
    assert_null(strstr(e.text, "did you mean"));
    end(folder);
}

TEST(a_file_that_is_not_regular_is_not_read)
{
    const char *folder = begin();
    struct codec_file f;
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/pipe.c", folder);
    assert_int_equal(mkfifo(path, 0600), 0); /* a compiler would wait for a writer */
    assert_int_equal(find_codec(&f, path, folder, NULL, &e), ERR_CODEC);
    assert_error_has("pipe.c: not a regular file");
    assert_int_equal(find_model(path, "/dev/zero", folder, &e), ERR_CONFIG);
    end(folder);
}

TEST(a_list_of_many_names_is_cut_at_a_name)
{
    const char *folder = begin();
    struct codec_file f;

    for (int i = 0; i < 100; i++) {
        char name[64];

        snprintf(name, sizeof name, "mine/rule_number_%02d.c", i);
        touch(folder, name);
    }
    assert_int_equal(find_codec(&f, "something_else", folder, NULL, &e), ERR_CODEC);
    assert_non_null(strstr(e.hint, "Known here: "));
    assert_non_null(strstr(e.hint, " rule_number_00 "));
    assert_non_null(strstr(e.hint, " .... A file of your own is named with its path"));
    for (const char *at = e.hint; (at = strstr(at, "rule_number_")); at++)
        assert_int_equal(at[14], ' ');
    end(folder);
}

TEST(a_file_in_the_working_folder_named_without_extension_is_suggested)
{
    const char *folder = begin();
    struct codec_file found;
    char path[PATH_MAX], from[PATH_MAX];

    touch(folder, "plan.c");
    touch(folder, "net.json");
    assert_non_null(getcwd(from, sizeof from));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(find_codec(&found, "plan", folder, NULL, &e), ERR_CODEC);
    assert_error_has("unknown codec \"plan\"");
    assert_string_equal(e.hint, "A file of your own is named with its path: --codec ./plan.c");
    assert_int_equal(find_model(path, "net", folder, &e), ERR_CONFIG);
    assert_string_equal(e.hint, "A file of your own is named with its path: --model ./net.json");
    assert_int_equal(chdir(from), 0);
    end(folder);
}

TEST(a_class_in_a_module_is_the_modules_file_in_the_codec_folder_or_here)
{
    const char *folder = begin();
    struct codec_file f;
    char from[PATH_MAX];

    touch(folder, "codec/tutorial_codec.c");
    touch(folder, "here.c");
    assert_non_null(getcwd(from, sizeof from));
    assert_int_equal(chdir(folder), 0);
    assert_ok(find_codec(&f, "tutorial_codec.myComCtrl", folder, NULL, &e));
    assert_string_equal(f.path, "./codec/tutorial_codec.c");
    assert_true(f.is_source);
    assert_ok(find_codec(&f, "here.Rule", folder, NULL, &e));
    assert_string_equal(f.path, "./here.c");
    assert_int_equal(find_codec(&f, "there.Rule", folder, NULL, &e), ERR_CODEC);
    assert_int_equal(find_codec(&f, ".Rule", folder, NULL, &e), ERR_CODEC);
    assert_int_equal(find_codec(&f, "tutorial_codec", folder, NULL, &e), ERR_CODEC);
    assert_int_equal(chdir(from), 0);
    end(folder);
}

TEST(a_path_is_used_unchanged)
{
    const char *folder = begin();
    struct codec_file f;
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/mine/ring.c", folder);
    assert_ok(find_codec(&f, path, "/nowhere", NULL, &e));
    assert_string_equal(f.path, path);
    assert_true(f.is_source);
    assert_int_equal(find_codec(&f, "nothere.so", folder, NULL, &e), ERR_CODEC);
    assert_error_has("nothere.so: No such file");
    assert_int_equal(find_codec(&f, "plain,fedavg", folder, NULL, &e), ERR_CODEC);
    assert_error_has("a list of codecs is not possible");
    end(folder);
}

TEST(a_path_may_contain_a_comma)
{
    const char *folder = begin();
    struct codec_file f;
    char path[PATH_MAX];

    touch(folder, "mine, old/ring.c");
    snprintf(path, sizeof path, "%s/mine, old/ring.c", folder);
    assert_ok(find_codec(&f, path, folder, NULL, &e));
    assert_string_equal(f.path, path);
    assert_int_equal(find_codec(&f, "./plain.c,./ring.c", folder, NULL, &e), ERR_CODEC);
    assert_error_has("./plain.c,./ring.c: No such file");
    end(folder);
}

TEST(a_model_is_a_name_or_a_path)
{
    const char *folder = begin();
    char path[PATH_MAX];

    assert_ok(find_model(path, "softmax", folder, &e));
    assert_non_null(strstr(path, "/models/softmax.json"));
    assert_int_equal(find_model(path, "sofmax", folder, &e), ERR_CONFIG);
    assert_error_has("did you mean \"softmax\"?");
    assert_int_equal(find_model(path, "other.json", folder, &e), ERR_CONFIG);
    end(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_searched_beside_the_program_first),
        cmocka_unit_test(the_source_of_compiled_and_built_in_codecs_is_known),
        cmocka_unit_test(an_unknown_codec_is_reported_with_the_nearest_and_the_list),
        cmocka_unit_test(a_file_that_is_not_regular_is_not_read),
        cmocka_unit_test(a_list_of_many_names_is_cut_at_a_name),
        cmocka_unit_test(a_file_in_the_working_folder_named_without_extension_is_suggested),
        cmocka_unit_test(a_class_in_a_module_is_the_modules_file_in_the_codec_folder_or_here),
        cmocka_unit_test(a_path_is_used_unchanged),
        cmocka_unit_test(a_path_may_contain_a_comma),
        cmocka_unit_test(a_model_is_a_name_or_a_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
