#include "submit/sweep/sweep.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/crypto.h"
#include "tests/unit/unit.h"

static struct err e;
static char folder[PATH_MAX];

TEST(a_folder_with_other_files_is_refused_and_left_as_it_is)
{
    struct options opt = {.simulate = true};
    struct sweep s = {.opt = &opt};
    char path[PATH_MAX];

    snprintf(folder, sizeof folder, "%s", unit_folder());
    snprintf(opt.output, sizeof opt.output, "%s", folder);
    assert_ok(file_join(path, sizeof path, folder, "runs", &e));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_ok(sweep_open(&s, &e));
    assert_int_equal(sweep_begin(&s, &e), ERR_CONFLICT);
    assert_error_has("is not the folder of a sweep: it contains runs");
    sweep_close(&s);
    assert_int_equal(rmdir(path), 0);
    assert_ok(file_join(path, sizeof path, folder, "sweep.json.tmp.99999999",
                        &e)); /* of a process that has ended */
    assert_ok(file_write(path, "", 0, 0600, &e));
    assert_ok(sweep_open(&s, &e));
    assert_ok(sweep_begin(&s, &e));
    sweep_close(&s);
    assert_ok(sweep_open(&s, &e));
    assert_ok(sweep_begin(&s, &e)); /* it goes on */
    sweep_close(&s);
    unit_remove(folder);
}

static const char *at(const char *name)
{
    static char path[PATH_MAX];

    assert_ok(file_join(path, sizeof path, folder, name, &e));
    return path;
}

/* Its time is in the past: before the run. */
static void put(const char *name, const char *text)
{
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};

    assert_ok(file_write(at(name), text, strlen(text), 0600, &e));
    assert_int_equal(utimensat(AT_FDCWD, at(name), old, 0), 0);
}

static const char *sum_of(const char *text)
{
    static char hex[SHA256_HEX];
    uint8_t sum[SHA256_BYTES];

    sha256(sum, text, strlen(text));
    hex_encode(hex, sum, sizeof sum);
    return hex;
}

static json_t *part(const char *name, const char *key, const char *text)
{
    return json_pack("{s:s, s:s}", "file", at(name), key, sum_of(text));
}

TEST(a_file_of_other_bytes_or_newer_data_is_noticed)
{
    char now[CLOCK_TEXT], file[PATH_MAX], data[PATH_MAX], config[PATH_MAX];
    json_t *run;

    snprintf(folder, sizeof folder, "%s", unit_folder());
    put("mine.c", "one");
    put("built_in.so", "object");
    put("mine.json", "{}");
    put("train.csv", "1,2");
    put("job.json", "{}");
    snprintf(data, sizeof data, "%s", folder);
    snprintf(config, sizeof config, "%s", at("job.json"));
    run = json_pack("{s:s, s:{s:o, s:o, s:o, s:{s:s}}}", "submitted_at", clock_text(now, clock_wall() - 60),
                    "facts", "server_codec", part("built_in.so", "sha256", "object"), "codec",
                    part("mine.c", "source_sha256", "one"), "model", part("mine.json", "sha256", "{}"),
                    "options", "data", data);
    assert_non_null(run);
    assert_false(sweep_inputs_changed(file, run, config));

    assert_int_equal(json_object_set_new(json_object_get(json_object_get(run, "facts"), "server_codec"),
                                         "source_sha256", json_string(sum_of("its source"))),
                     0); /* as a built-in one has */
    assert_false(sweep_inputs_changed(file, run, config));

    put("mine.c", "two");
    assert_true(sweep_inputs_changed(file, run, config));
    assert_string_equal(file, at("mine.c"));
    assert_int_equal(unlink(at("mine.c")), 0); /* a run without it would fail */
    assert_false(sweep_inputs_changed(file, run, config));

    put("mine.json", "{\"name\":0}");
    assert_true(sweep_inputs_changed(file, run, config));
    assert_string_equal(file, at("mine.json"));
    put("mine.json", "{}");

    assert_int_equal(utimensat(AT_FDCWD, at("train.csv"), NULL, 0), 0);
    assert_true(sweep_inputs_changed(file, run, config));
    assert_string_equal(file, at("train.csv"));
    put("train.csv", "1,2");

    json_object_del(json_object_get(json_object_get(run, "facts"), "options"), "data");
    assert_int_equal(utimensat(AT_FDCWD, config, NULL, 0), 0);
    assert_true(sweep_inputs_changed(file, run, config));
    assert_string_equal(file, config);
    assert_false(sweep_inputs_changed(file, run, ""));
    json_decref(run);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_with_other_files_is_refused_and_left_as_it_is),
        cmocka_unit_test(a_file_of_other_bytes_or_newer_data_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
