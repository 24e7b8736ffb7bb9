#include "submit/results/compare.h"

#include <math.h>

#include "tests/unit/unit.h"

static struct err e;
static const char *folder;

static void put(const char *in, const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", in, name);
    assert_ok(file_write(path, text, strlen(text), 0644, &e));
}

/* A folder of results, with its run.json, and evaluations unless these are NULL. */
static void make_run(const char *name, const char *doc, const char *rows)
{
    char results[128], records[160], text[1024];

    snprintf(results, sizeof results, "%s/%s", folder, name);
    snprintf(records, sizeof records, "%s/records", results);
    assert_ok(file_mkdirs(records, 0777, &e));
    put(results, "run.json", doc);
    if (!rows)
        return;
    snprintf(text, sizeof text,
             "time_s,node,epoch,step,samples,loss,accuracy,sent_bytes_total,recv_bytes_total\n%s", rows);
    put(records, "eval.csv", text);
}

#define NODES                                                                                                \
    "\"nodes\":[{\"node\":0,\"elapsed_s\":9,\"sent_bytes\":30,\"recv_bytes\":40},"                           \
    "{\"node\":1,\"elapsed_s\":11,\"sent_bytes\":50,\"recv_bytes\":60},"                                     \
    "{\"node\":-2,\"elapsed_s\":10,\"sent_bytes\":5000,\"recv_bytes\":0}]"

/* Accuracy 0.5, 0.7, 0.6 at 2, 4, 6 s and 10, 20, 30 bytes, the means of two workers. */
static const char *const evaluations =
    "1,0,1,10,1,0.9,0.4,5,5\n3,0,2,20,2,0.3,0.8,10,10\n5,0,3,30,3,0.5,0.6,15,15\n"
    "3,1,1,10,1,0.7,0.6,5,5\n5,1,2,20,2,0.5,0.6,10,10\n7,1,3,30,3,0.5,0.6,15,15\n";

static void begin(void)
{
    folder = unit_folder();
    setenv("XDG_STATE_HOME", folder, 1);
    make_run("a",
             "{\"id\":\"j-a\",\"name\":\"x\",\"state\":\"succeeded\",\"settings\":{\"name\":\"x\",\"codec\":"
             "\"one\","
             "\"codec_options\":\"k=1\",\"seed\":1,\"learn_rate\":0.1},"
             "\"mean_over_workers\":{\"eval_accuracy\":0.6,\"eval_loss\":0.5}," NODES "}",
             evaluations);
    make_run("b",
             "{\"id\":\"j-b\",\"name\":\"y\",\"state\":\"succeeded\",\"settings\":{\"name\":\"y\",\"codec\":"
             "\"one\","
             "\"codec_options\":\"\",\"seed\":1,\"learn_rate\":0.1}," NODES "}",
             "1,0,1,10,1,0.5,0.65,5,5\n2,0,2,20,1,0.5,0.55,7,5\n");
    make_run(
        "c",
        "{\"id\":\"j-c\",\"name\":\"z\",\"state\":\"failed\",\"settings\":{\"name\":\"z\",\"codec\":\"one\","
        "\"codec_options\":\"\",\"seed\":1,\"learn_rate\":0.10},\"nodes\":[]}",
        NULL);
}

static json_t *compare(const char *const *names, size_t n, double target)
{
    char paths[5][128];
    const char *found[5];
    struct run *runs;
    json_t *doc;
    size_t n_runs;

    for (size_t i = 0; i < n; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i]);
        found[i] = paths[i];
    }
    assert_ok(runs_find(&runs, &n_runs, found, n, &e));
    assert_ok(compare_runs(&doc, runs, n_runs, target, &e));
    runs_free(runs, n_runs);
    return doc;
}

/* The value of run `i` of the row `name` of a list; NULL: there is no such row. */
static const json_t *value(const json_t *doc, const char *list, const char *name, size_t i)
{
    const json_t *row;
    size_t k;

    json_array_foreach(json_object_get(doc, list), k,
                       row) if (strcmp(json_string_value(json_object_get(row, "name")), name) ==
                                0) return json_array_get(json_object_get(row, "values"), i);
    return NULL;
}

static double result(const json_t *doc, const char *name, size_t i)
{
    const json_t *v = value(doc, "results", name, i);

    return json_is_number(v) ? json_number_value(v) : NAN;
}

static const char *label(const json_t *doc, size_t run)
{
    return json_string_value(json_object_get(json_array_get(json_object_get(doc, "runs"), run), "label"));
}

TEST(results_are_means_over_the_workers)
{
    json_t *doc;

    begin();
    doc = compare((const char *const[]){"a"}, 1, 0.65);

    assert_true(result(doc, "accuracy", 0) == 0.6);
    assert_true(fabs(result(doc, "best_accuracy", 0) - 0.7) < 1e-9);
    assert_true(result(doc, "loss", 0) == 0.5);
    assert_true(fabs(result(doc, "best_loss", 0) - 0.4) < 1e-9);
    assert_true(result(doc, "time_s", 0) == 11);
    assert_true(result(doc, "bytes", 0) == 90); /* of a worker: (70 + 110) / 2 */
    assert_true(result(doc, "time_to_target_s", 0) == 4);
    assert_true(result(doc, "bytes_to_target", 0) == 20);
    assert_true(result(doc, "steps_to_target", 0) == 20);
    json_decref(doc);
    unit_remove(folder);
}

/* Run d ends with a higher loss than its first batches had, run e with one that is no number. Run f
 * ends with a higher loss, too, but its first batches were those of a checkpoint. */
TEST(a_diverged_run_is_marked_and_does_not_set_the_target)
{
    char path[160];
    json_t *doc, *runs;

    begin();
    make_run("d", "{\"id\":\"j-d\",\"name\":\"d\",\"state\":\"succeeded\",\"settings\":{\"seed\":2}}",
             "1,0,1,10,1,9e9,0.1,5,5\n");
    snprintf(path, sizeof path, "%s/d/records", folder);
    put(path, "train.csv",
        "time_s,node,step,samples,loss,accuracy\n1,0,1,8,2.2,0.1\n1,1,1,8,2.4,0.1\n2,0,2,8,8e9,0.1\n");
    make_run("e", "{\"id\":\"j-e\",\"name\":\"e\",\"state\":\"succeeded\",\"settings\":{\"seed\":3}}",
             "1,0,1,10,1,2,0.2,5,5\n2,0,2,20,1,nan,0.1,5,5\n");
    make_run("f",
             "{\"id\":\"j-f\",\"name\":\"f\",\"state\":\"succeeded\",\"settings\":{\"seed\":4},"
             "\"facts\":{\"options\":{\"resume\":\"earlier\"}}}",
             "1,0,1,10,1,0.5,0.8,5,5\n");
    snprintf(path, sizeof path, "%s/f/records", folder);
    put(path, "train.csv", "time_s,node,step,samples,loss,accuracy\n1,0,1,8,0.1,0.9\n1,1,1,8,0.1,0.9\n");
    doc = compare((const char *const[]){"a", "b", "f", "d", "e"}, 5, NAN);
    runs = json_object_get(doc, "runs");

    for (size_t i = 0; i < 5; i++)
        assert_int_equal(json_is_true(json_object_get(json_array_get(runs, i), "diverged")), i >= 3);
    assert_true(json_number_value(json_object_get(doc, "target")) == 0.65);
    json_decref(doc);
    unit_remove(folder);
}

TEST(the_last_values_of_metrics_are_results)
{
    static const char *const names[] = {"a", "b"};
    char path[160];
    json_t *doc;

    begin();
    snprintf(path, sizeof path, "%s/b/records", folder);
    put(path, "metrics.csv",
        "time_s,node,epoch,step,metric,value\n1,0,1,10,loss,0.5\n1,1,1,10,loss,0.7\n2,0,1,20,loss,0.2\n"
        "2,1,1,20,loss,0.3\n2,0,1,20,bad,nan\n");
    doc = compare(names, 2, NAN);
    assert_true(fabs(result(doc, "metrics/loss", 1) - 0.25) < 1e-9);
    assert_true(json_is_null(value(doc, "results", "metrics/loss", 0)));
    assert_null(value(doc, "results", "metrics/bad", 1));
    json_decref(doc);
    unit_remove(folder);
}

TEST(the_target_is_what_all_evaluated_runs_reached)
{
    json_t *doc;

    begin();
    doc = compare((const char *const[]){"a", "b", "c"}, 3, NAN);

    assert_true(json_number_value(json_object_get(doc, "target")) == 0.65);
    assert_true(result(doc, "time_to_target_s", 0) == 4);
    assert_true(result(doc, "time_to_target_s", 1) == 1);
    assert_true(json_is_null(value(doc, "results", "time_to_target_s", 2)));
    assert_true(json_is_null(value(doc, "results", "best_accuracy", 2)));
    json_decref(doc);
    doc = compare((const char *const[]){"c"}, 1, NAN);
    assert_true(json_is_null(json_object_get(doc, "target")));
    assert_null(value(doc, "results", "accuracy", 0));
    assert_null(value(doc, "results", "time_to_target_s", 0));
    json_decref(doc);
    unit_remove(folder);
}

TEST(a_target_that_no_run_reached_has_no_time)
{
    json_t *doc;

    begin();
    doc = compare((const char *const[]){"a", "b"}, 2, 0.99);

    assert_true(json_is_null(value(doc, "results", "time_to_target_s", 0)));
    assert_true(json_is_null(value(doc, "results", "bytes_to_target", 1)));
    json_decref(doc);
    unit_remove(folder);
}

TEST(only_settings_that_differ_are_printed)
{
    json_t *doc;

    begin();
    doc = compare((const char *const[]){"a", "b"}, 2, NAN);
    assert_int_equal(json_array_size(json_object_get(doc, "settings")), 1);
    assert_string_equal(json_string_value(value(doc, "settings", "codec", 0)), "one:k=1");
    assert_string_equal(json_string_value(value(doc, "settings", "codec", 1)), "one");
    assert_string_equal(label(doc, 0), "one:k=1");
    json_decref(doc);
    doc = compare((const char *const[]){"b", "c"}, 2, NAN);
    assert_int_equal(json_array_size(json_object_get(doc, "settings")), 0);
    assert_string_equal(label(doc, 1), "z"); /* by name where no setting differs */
    json_decref(doc);
    unit_remove(folder);
}

TEST(a_label_has_the_fewest_settings_that_tell_the_runs_apart)
{
    static const char doc[] = "{\"id\":\"j-%d\",\"name\":\"n\",\"settings\":{\"codec\":\"%s\","
                              "\"codec_options\":\"%s\",\"seed\":%d,\"local_steps\":%d},\"nodes\":[]}";
    char text[256];
    json_t *out;

    begin();
    snprintf(text, sizeof text, doc, 1, "one", "", 1, 0);
    make_run("1", text, NULL);
    snprintf(text, sizeof text, doc, 2, "two", "k=1,m=2", 1, 20);
    make_run("2", text, NULL);
    snprintf(text, sizeof text, doc, 3, "two", "k=1,m=2", 2, 20);
    make_run("3", text, NULL);
    snprintf(text, sizeof text, doc, 4, "two", "k=1,m=3", 2, 20);
    make_run("4", text, NULL);
    out = compare((const char *const[]){"1", "2"}, 2, NAN);
    assert_string_equal(label(out, 0), "one");
    assert_string_equal(label(out, 1), "two");
    json_decref(out);
    out = compare((const char *const[]){"1", "2", "3", "4"}, 4, NAN);
    assert_string_equal(label(out, 0), "one seed=1");
    assert_string_equal(label(out, 2), "two:m=2 seed=2");
    assert_string_equal(label(out, 3), "two:m=3 seed=2");
    json_decref(out);
    unit_remove(folder);
}

/* Whether another version of a codec or a data set was used shows only among runs of the same name. */
TEST(contents_differ_only_within_a_name)
{
    static const char doc[] = "{\"id\":\"j-%c\",\"name\":\"n\",\"settings\":{\"codec\":\"%s\"},\"facts\":{"
                              "\"codec\":{\"source_sha256\":\"%s\",\"sha256\":\"%c\"}},\"nodes\":[]}";
    char text[256];
    json_t *out;

    begin();
    snprintf(text, sizeof text, doc, '1', "one", "s1", 'x');
    make_run("1", text, NULL);
    snprintf(text, sizeof text, doc, '2', "two", "s2", 'y');
    make_run("2", text, NULL);
    snprintf(text, sizeof text, doc, '3', "one", "s3", 'z');
    make_run("3", text, NULL);
    out = compare((const char *const[]){"1", "2"}, 2, NAN);
    assert_null(value(out, "settings", "codec_sha256", 0));
    json_decref(out);
    out = compare((const char *const[]){"1", "2", "3"}, 3, NAN);
    assert_string_equal(json_string_value(value(out, "settings", "codec_sha256", 2)), "s3");
    json_decref(out);
    unit_remove(folder);
}

TEST(a_run_named_twice_is_one_and_a_foreign_folder_is_refused)
{
    char path[128];
    struct run r;
    json_t *doc;

    begin();
    doc = compare((const char *const[]){"a", "b", "a"}, 3, NAN);
    assert_int_equal(json_array_size(json_object_get(doc, "runs")), 2);
    json_decref(doc);
    assert_int_equal(run_find(&r, folder, &e), ERR_NOT_FOUND);
    assert_error_has("run.json");
    snprintf(path, sizeof path, "%s/%s", folder, "d");
    make_run("d", "{\"state\":\"succeeded\"}", NULL);
    assert_int_equal(run_find(&r, path, &e), ERR_CONFIG);
    assert_error_has("no id");
    assert_int_equal(run_find(&r, "j-nothing", &e), ERR_NOT_FOUND);
    assert_error_has("j-nothing is no folder: no job j-nothing was submitted from here");
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_means_over_the_workers),
        cmocka_unit_test(a_diverged_run_is_marked_and_does_not_set_the_target),
        cmocka_unit_test(the_last_values_of_metrics_are_results),
        cmocka_unit_test(the_target_is_what_all_evaluated_runs_reached),
        cmocka_unit_test(a_target_that_no_run_reached_has_no_time),
        cmocka_unit_test(only_settings_that_differ_are_printed),
        cmocka_unit_test(a_label_has_the_fewest_settings_that_tell_the_runs_apart),
        cmocka_unit_test(contents_differ_only_within_a_name),
        cmocka_unit_test(a_run_named_twice_is_one_and_a_foreign_folder_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
