/* Curves as files of other programs, and the files that grow while curves are exported. */
#include "submit/export/export.h"

#include <sys/stat.h>

#include "submit/files/appender.h"
#include "submit/files/run_file.h"
#include "tests/unit/unit.h"

static struct err e;

static const char *in(const char *folder, const char *name)
{
    static char path[PATH_MAX];

    assert_ok(file_join(path, sizeof path, folder, name, &e));
    return path;
}

static void put(const char *folder, const char *name, const char *text)
{
    assert_ok(file_mkdirs(in(folder, "records"), 0700, &e));
    assert_ok(file_write(in(folder, name), text, strlen(text), 0600, &e));
}

TEST(more_files_than_are_open_at_once_keep_all_their_lines_and_replace_earlier_ones)
{
    enum { N = 3 * APPENDER_OPEN_MAX };
    const char *folder = unit_folder();
    struct appender a = {0};
    char name[40], *text;
    struct stat st;
    size_t len;
    bool is_new;
    FILE *f;

    put(folder, "records/kept", "kept");
    assert_int_equal(symlink("records/kept", in(folder, "0")), 0);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < N; i++) {
            snprintf(name, sizeof name, i ? "deep/er/%d" : "%d", i);
            assert_ok(appender_file(&a, &f, &is_new, in(folder, name), &e));
            assert_true(is_new == (round == 0));
            fprintf(f, "%d\n", i + round);
        }
    assert_ok(appender_end(&a, 0, &e));
    assert_null(a.places);
    assert_ok(file_read(&text, &len, in(folder, "deep/er/100"), 100, &e));
    assert_string_equal(text, "100\n101\n102\n");
    free(text);
    assert_int_equal(lstat(in(folder, "0"), &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_ok(file_read(&text, &len, in(folder, "records/kept"), 100, &e));
    assert_string_equal(text, "kept");
    free(text);
    assert_int_equal(appender_file(&a, &f, &is_new, in(folder, "records/kept/x"), &e), ERR_IO);
    assert_ok(appender_end(&a, 0, &e));
    unit_remove(folder);
}

TEST(a_full_disk_fails_the_export)
{
    const char *folder = unit_folder();
    struct appender a = {0};
    char *text;
    bool is_new;
    size_t len;
    FILE *f;

    put(folder, "x", "kept");
    assert_ok(appender_file(&a, &f, &is_new, in(folder, "x"), &e));
    assert_non_null(freopen("/dev/full", "w", f));
    fprintf(f, "text\n");
    assert_int_equal(appender_end(&a, 0, &e), ERR_NOSPACE);
    assert_error_has("/x: No space left on device");
    assert_ok(file_read(&text, &len, in(folder, "x"), 100, &e)); /* whole, as it was */
    assert_string_equal(text, "kept");
    free(text);
    unit_remove(folder); /* which holds nothing else */
}

TEST(a_folder_without_results_is_refused)
{
    const char *folder = unit_folder();
    json_t *run = json_object();
    char out[PATH_MAX];

    assert_int_equal(mlflow_write(out, folder, run, in(folder, "mlruns"), &e), ERR_CONFIG);
    assert_error_has("no id of a job");
    put(folder, "records/eval.csv", "x\n");
    assert_int_equal(tensorboard_write(folder, run, in(folder, "tensorboard"), &e), ERR_PROTOCOL);
    json_decref(run);
    unit_remove(folder);
}

TEST(links_and_pipes_of_a_folder_are_not_copied_and_not_read)
{
    const char *folder = unit_folder();
    json_t *run = json_pack("{s:s}", "id", "j-1"), *read;
    char out[PATH_MAX], path[PATH_MAX];

    put(folder, "secret", "mine");
    put(folder, "records/eval.csv", "node,time_s\n");
    assert_int_equal(mkdir(in(folder, "model"), 0700), 0);
    assert_int_equal(symlink("../secret", in(folder, "model/final.safetensors")), 0);
    assert_int_equal(mkfifo(in(folder, "model/best.safetensors"), 0600), 0);
    snprintf(path, sizeof path, "%s/mlruns", folder);
    assert_ok(mlflow_write(out, folder, run, path, &e));
    assert_int_equal(access(in(out, "artifacts/records/eval.csv"), F_OK), 0);
    assert_int_equal(access(in(out, "artifacts/model/best.safetensors"), F_OK), -1);
    assert_int_equal(access(in(out, "artifacts/model/final.safetensors"), F_OK), -1);
    assert_int_equal(symlink("secret", in(folder, "run.json")), 0);
    assert_int_equal(run_file_read(&read, folder, &e), ERR_NOT_FOUND);
    assert_error_has("run.json");
    json_decref(run);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_files_than_are_open_at_once_keep_all_their_lines_and_replace_earlier_ones),
        cmocka_unit_test(a_full_disk_fails_the_export),
        cmocka_unit_test(a_folder_without_results_is_refused),
        cmocka_unit_test(links_and_pipes_of_a_folder_are_not_copied_and_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
