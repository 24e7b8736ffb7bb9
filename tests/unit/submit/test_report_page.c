#include "submit/browse/report_page.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "submit/browse/documents.h"
#include "submit/files/untrusted_folder.h"
#include "tests/unit/unit.h"

#define END "</script><script>alert(1)</script>"

static const char run_text[] =
    "{\"id\": \"j-hostile\", \"name\": \"" END "\", \"state\": \"succeeded\", \"is_complete\": false,"
    " \"settings\": {\"codec\": \"fedavg\", \"node_count\": 2, \"epochs\": 2, \"record_every\": 5},"
    " \"facts\": {\"data\": {\"steps_per_epoch\": 10, \"class_names\": [\"zero\", \"" END
    "\"]}, \"tags\": [\"a\", 1]},"
    " \"nodes\": [{\"node\": 0, \"role\": \"worker\", \"steps\": 15, \"elapsed_s\": 4, \"comm\": "
    "{\"wait_s\": 1.5}},"
    " {\"node\": -2, \"role\": 7, \"steps\": 99, \"elapsed_s\": \"long\"}],"
    " \"mean_over_workers\": {\"loss\": 0.5, \"eval_accuracy\": 0.9}, \"comm\": {\"sent_bytes\": 10,"
    " \"compute_s\": 3, \"bound\": \"compute\"}, \"models_agree\": false,"
    " \"files\": [{\"name\": \"records/train.csv\", \"bytes\": 1, \"sha256\": \"00\"}, 3]}";

static void put(const char *folder, const char *name, const char *text)
{
    char path[256];
    struct err e;

    assert_ok(file_join(path, sizeof path, folder, name, &e));
    *strrchr(path, '/') = '\0';
    assert_ok(file_mkdirs(path, 0700, &e));
    assert_ok(file_join(path, sizeof path, folder, name, &e));
    assert_ok(file_write(path, text, strlen(text), 0600, &e));
}

static const char *hostile_folder(void)
{
    const char *folder = unit_folder();

    put(folder, "run.json", run_text);
    put(folder, "records/train.csv", "node,step,loss,accuracy\n0,1,2,0.5\n0,2,1," END "\n");
    put(folder, "records/comm.csv",
        "node,peer,direction,wire_bytes,transfer_s\n0,-2,sent,10,0.1\n-2,0,received,10,0.25\n0,-2,sent,5,"
        "\n" END ",0,sent,1,1\n99999999,0,sent,1,1\n");
    put(folder, "records/codec.csv",
        "node,step,name,value\n0,1,staleness,1\n0,2,staleness,0\n0,3,staleness,1\n0,3," END
        ",1\n0,4,staleness,nan\n-3,1,staleness,7\n-3,2,staleness,0\n");
    put(folder, "records/confusion.csv",
        "node,epoch,step,label,predicted,count\n0,1,10,0,0,9\n1,2,20,0,0,5\n1,2,20,0,1,2\n"
        "0,2,20,0,0,3\n0,2,20,0,1,4\n0,2,20,99999999,0,1\n0,2,20,-1,0,1\n0,2,20,0,0,3\n-2,2,20,1,1,7\n");
    put(folder, "logs/worker-0.log", "ready\nWARN: " END "\nerror: lost\n");
    put(folder, "logs/submit.log", "INFO User Submit@12:29:01 : Add \x01\xff worker\n");
    put(folder,
        "logs/"
        "other.txt",
        "no log\n");
    put(folder, "codec/mean.c", "/* " END " */\n");
    return folder;
}

static json_t *documents_of(const char *folder)
{
    static const char begin[] = "id=\"psgd-data\">";
    char *text;
    size_t len;
    struct err e;
    json_t *data;
    json_t *documents;
    char *from;

    assert_ok(report_page_text(&text, &len, folder, NULL, &e));
    assert_int_equal(strlen(text), len);
    assert_null(strstr(text, END)); /* nowhere in the page */
    from = strstr(text, begin) + strlen(begin);
    *strstr(from, "</script>") = '\0';
    data = json_loads(from, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(data);
    assert_string_equal(json_string_value(json_object_get(data, "mode")), "report");
    documents = json_incref(json_object_get(data, "documents"));
    json_decref(data);
    free(text);
    return documents;
}

static void assert_is(json_t *o, const char *key, const char *expected)
{
    char *text = json_dumps(json_object_get(o, key), JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));

    assert_string_equal(text ? text : "absent", expected);
    free(text);
}

TEST(a_report_has_a_jobs_documents_and_no_text_of_it_is_executed)
{
    const char *folder = hostile_folder();
    json_t *all = documents_of(folder);
    json_t *job = json_object_get(all, "/api/jobs/j-hostile");
    json_t *line = json_object_get(job, "job");
    json_t *doc;

    assert_is(line, "name", "\"" END "\"");
    assert_is(line, "progress", "{\"epoch\":2,\"epochs\":2,\"step\":15,\"steps\":20,\"ratio\":0.75}");
    assert_is(line, "metrics", "{\"accuracy\":0.9,\"of\":\"test\"}");
    assert_is(line, "elapsed_s", "4.0");
    assert_is(line, "tags", "[\"a\"]");
    assert_is(line, "can_cancel", "false");
    assert_is(job, "bound_by", "\"compute\"");
    assert_is(job, "classes", "[\"zero\",\"" END "\"]");
    assert_int_equal(json_array_size(json_object_get(job, "nodes")), 2);
    assert_is(json_array_get(json_object_get(job, "nodes"), 0), "wait_s", "1.5");
    assert_int_equal(json_array_size(json_object_get(job, "warnings")), 3);
    assert_is(json_object_get(job, "codec_source"), "name", "\"mean.c\"");
    doc = json_object_get(all, "/api/jobs/j-hostile/series?file=train&names=loss,accuracy&x=step");
    assert_is(json_array_get(json_object_get(doc, "nodes"), 0), "accuracy", "[0.5,null]");
    assert_null(json_object_get(all, "/api/jobs/j-hostile/series?file=train&names=loss,accuracy&x=time"));
    doc = json_object_get(all, "/api/jobs/j-hostile/peers");
    assert_is(doc, "nodes", "[0,-2]");
    assert_is(doc, "sent", "[[0,15],[0,0]]");
    assert_is(doc, "received", "[[0,0],[10,0]]");
    assert_is(doc, "wait_s", "[[0,0],[0.25,0]]");
    doc = json_object_get(all, "/api/jobs/j-hostile/histogram?name=staleness");
    assert_is(doc, "counts", "[[0.0,1],[1.0,2]]");
    doc = json_object_get(all, "/api/jobs/j-hostile/confusion");
    assert_is(doc, "counts",
              "[[3,4],[0,0]]"); /* each sample once: worker 0's, though another and a server tested it, too */
    assert_is(doc, "node", "0");
    assert_is(doc, "step", "20.0");
    doc = json_object_get(all, "/api/jobs/j-hostile/log");
    assert_int_equal(json_array_size(json_object_get(doc, "lines")), 4);
    assert_is(json_array_get(json_object_get(doc, "lines"), 0), "time", "\"12:29:01\"");
    assert_is(json_array_get(json_object_get(doc, "lines"), 0), "text",
              "\"INFO User Submit@12:29:01 : Add ?? worker\"");
    assert_is(json_array_get(json_object_get(doc, "lines"), 2), "level", "\"warn\"");
    json_decref(all);
    unit_remove(folder);
}

TEST(a_name_that_is_not_a_file_of_the_folder_is_not_opened)
{
    const char *folder = hostile_folder();
    char path[256];
    char command[300];
    json_t *all;

    put(folder, "secret", "node,step,loss,accuracy\n0,1,42,1\n");
    snprintf(command, sizeof command, "%s/secret", folder);
    snprintf(path, sizeof path, "%s/records/train.csv", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(command, path), 0);
    snprintf(path, sizeof path, "%s/records/comm.csv", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* opening it would wait for a writer */
    all = documents_of(folder);
    assert_is(json_object_get(all, "/api/jobs/j-hostile/series?file=train&names=loss,accuracy&x=step"),
              "rows", "0");
    assert_null(json_object_get(all, "/api/jobs/j-hostile/peers"));
    json_decref(all);
    unit_remove(folder);
}

TEST(only_regular_files_below_the_folder_are_found)
{
    static const char *const wrong[] = {"../run.json",
                                        "/etc/passwd",
                                        "records/../run.json",
                                        "records//train.csv",
                                        "./run.json",
                                        "records",
                                        "records/",
                                        "",
                                        "loop/x",
                                        "none",
                                        ".hidden"};
    const char *folder = hostile_folder();
    char path[256];
    uint64_t bytes;
    struct err e;
    int dir;
    int fd;

    put(folder, ".hidden", "x");
    snprintf(path, sizeof path, "%s/loop", folder);
    assert_int_equal(symlink(".", path), 0);
    assert_ok(untrusted_open(&dir, folder, &e));
    for (size_t i = 0; i < N_OF(wrong); i++)
        assert_int_equal(untrusted_file(&fd, &bytes, dir, wrong[i], &e), ERR_NOT_FOUND);
    assert_ok(untrusted_file(&fd, &bytes, dir, "records/train.csv", &e));
    close(fd);
    close(dir);
    unit_remove(folder);
}

TEST(a_file_for_which_no_descriptor_is_left_is_not_missing)
{
    const char *folder = hostile_folder();
    struct rlimit most, none;
    uint64_t bytes;
    struct err e;
    int dir, fd;

    assert_ok(untrusted_open(&dir, folder, &e));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &most), 0);
    none = (struct rlimit){0, most.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(untrusted_file(&fd, &bytes, dir, "records/train.csv", &e), ERR_IO);
    assert_int_equal(untrusted_file(&fd, &bytes, dir, "run.json", &e), ERR_IO);
    assert_int_equal(untrusted_enter(&fd, dir, "logs", &e), ERR_IO);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &most), 0);
    close(dir);
    unit_remove(folder);
}

TEST(a_list_of_names_is_sorted_and_an_empty_one_holds_no_memory)
{
    const char *folder = unit_folder();
    char path[256];
    struct err e;
    char **names;
    size_t n;
    int dir;

    assert_ok(untrusted_open(&dir, folder, &e));
    assert_ok(untrusted_list(&names, &n, dir, 100, &e));
    assert_int_equal(n, 0);
    assert_null(names);
    for (int i = 69; i >= 0; i--) {
        snprintf(path, sizeof path, "%02d", i);
        put(folder, path, "");
    }
    put(folder, ".hidden", "");
    assert_ok(untrusted_list(&names, &n, dir, 100, &e));
    assert_int_equal(n, 70);
    for (int i = 0; i < 70; i++)
        assert_int_equal(atoi(names[i]), i);
    untrusted_list_free(names, n);
    assert_ok(untrusted_list(&names, &n, dir, 7, &e));
    assert_int_equal(n, 7);
    untrusted_list_free(names, n);
    close(dir);
    unit_remove(folder);
}

TEST(a_longer_text_is_cut_at_its_begin_and_a_longer_document_refused)
{
    const char *folder = unit_folder();
    json_t *doc;
    struct err e;
    char *text;
    size_t len;
    int dir;

    put(folder, "a.log", "0123456789");
    assert_ok(untrusted_open(&dir, folder, &e));
    assert_ok(untrusted_text(&text, &len, dir, "a.log", 4, &e));
    assert_string_equal(text, "6789");
    free(text);
    assert_int_equal(untrusted_json(&doc, dir, "a.log", 4, &e), ERR_CONFIG);
    close(dir);
    unit_remove(folder);
}

TEST(lines_of_a_log_are_found_by_node_level_and_text_page_by_page)
{
    const char *folder = hostile_folder();
    struct shown s;
    struct err e;
    json_t *doc;

    assert_ok(shown_open(&s, folder, &e));
    assert_ok(document_log(&doc, &s, &(struct log_query){.node = "0", .level = "error"}, &e));
    assert_int_equal(json_array_size(json_object_get(doc, "lines")), 1);
    json_decref(doc);
    assert_ok(document_log(&doc, &s, &(struct log_query){.q = "ALERT"}, &e));
    assert_int_equal(json_array_size(json_object_get(doc, "lines")), 1);
    json_decref(doc);
    assert_ok(document_log(&doc, &s, &(struct log_query){.limit = 3}, &e));
    assert_is(doc, "next", "\"0:2\""); /* job_submit's line, and two of node 0 */
    json_decref(doc);
    assert_ok(document_log(&doc, &s, &(struct log_query){.limit = 3, .after = "0:2"}, &e));
    assert_int_equal(json_array_size(json_object_get(doc, "lines")), 1);
    assert_is(doc, "next", "null");
    assert_is(doc, "total", "4");
    json_decref(doc);
    shown_clear(&s);
    unit_remove(folder);
}

TEST(a_report_is_small_whatever_the_number_of_nodes_and_rows)
{
    enum { NODES = 2000, ROWS = 50 };
    const char *folder = hostile_folder();
    char *csv = malloc((size_t)NODES * ROWS * 40 + 64);
    size_t len = (size_t)sprintf(csv, "time_s,node,step,loss,accuracy\n");
    struct err e;
    char *text;

    for (int node = 0; node < NODES; node++)
        for (int i = 1; i <= ROWS; i++)
            len += (size_t)sprintf(csv + len, "%d.5,%d,%d,0.123456789,0.123456789\n", i, node, i);
    put(folder, "records/train.csv", csv);
    free(csv);
    assert_ok(report_page_text(&text, &len, folder, NULL, &e));
    assert_true(len < 4 << 20);
    free(text);
    unit_remove(folder);
}

TEST(a_folder_without_a_valid_run_json_has_no_report)
{
    static const char *const texts[] = {
        "", "[]", "{}", "{\"id\": \"../x\"}", "{\"id\": 3}", "{\"id\": \"j-a\""};
    const char *folder = unit_folder();
    char *text;
    size_t len;
    struct err e;

    assert_int_equal(report_page_text(&text, &len, folder, NULL, &e), ERR_NOT_FOUND);
    for (size_t i = 0; i < N_OF(texts); i++) {
        put(folder, "run.json", texts[i]);
        assert_int_equal(report_page_text(&text, &len, folder, NULL, &e), ERR_CONFIG);
    }
    unit_remove(folder);
}

TEST(sums_that_are_not_finite_are_null_in_a_matrix)
{
    const char *folder = hostile_folder();
    struct shown s;
    struct err e;
    json_t *doc;

    put(folder, "records/comm.csv",
        "node,peer,direction,wire_bytes,transfer_s\n0,1,sent,-1.7e308,\n0,1,sent,-1.7e308,\n"
        "0,1,received,1.7e308,1.7e308\n0,1,received,1.7e308,1e300\n1,0,sent,-5,0\n");
    assert_ok(shown_open(&s, folder, &e));
    assert_ok(document_peers(&doc, &s, &e));
    assert_is(doc, "sent", "[[0,null],[-5,0]]");
    assert_is(doc, "received", "[[0,null],[0,0]]");
    json_decref(doc);
    shown_clear(&s);
    unit_remove(folder);
}

TEST(results_of_a_job_that_was_never_tested_are_marked_as_those_of_training)
{
    static const struct {
        const char *mean, *metrics;
    } cases[] = {
        {"{\"loss\": 0.5, \"accuracy\": 0.25, \"eval_loss\": 2.5, \"eval_accuracy\": 0.75}",
         "{\"loss\":2.5,\"accuracy\":0.75,\"of\":\"test\"}"},
        {"{\"loss\": 0.5, \"accuracy\": 0.25, \"eval_loss\": null, \"eval_accuracy\": null}",
         "{\"loss\":0.5,\"accuracy\":0.25,\"of\":\"training\"}"},
        {"{}", "{}"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        json_t *run = json_pack("{s:o}", "mean_over_workers", json_loads(cases[i].mean, 0, NULL));
        json_t *line = document_line(run, "j-a", NULL, false);

        assert_is(line, "metrics", cases[i].metrics);
        json_decref(line);
        json_decref(run);
    }
}

/* Seconds of processor time for the confusion matrix of 30,000 evaluations with this class only. */
static double seconds_of_confusion(const char *folder, int class)
{
    enum { ROWS = 30000 };
    char *csv = malloc((size_t)ROWS * 40 + 64);
    size_t len = (size_t)sprintf(csv, "node,epoch,step,label,predicted,count\n");
    struct timespec begin, end;
    struct shown s;
    struct err e;
    json_t *doc;

    for (int i = 1; i <= ROWS; i++)
        len += (size_t)sprintf(csv + len, "0,1,%d,%d,%d,1\n", i, class, class);
    put(folder, "records/confusion.csv", csv);
    free(csv);
    assert_ok(shown_open(&s, folder, &e));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    assert_ok(document_confusion(&doc, &s, &e));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    assert_is(doc, "step", "30000.0");
    json_decref(doc);
    shown_clear(&s);
    return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}

TEST(a_confusion_matrix_takes_time_by_its_rows_and_not_by_its_classes_in_each)
{
    const char *folder = hostile_folder();
    double of_few = seconds_of_confusion(folder, 0);

    assert_true(seconds_of_confusion(folder, 999) < 10 * of_few + 0.5);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_has_a_jobs_documents_and_no_text_of_it_is_executed),
        cmocka_unit_test(a_name_that_is_not_a_file_of_the_folder_is_not_opened),
        cmocka_unit_test(only_regular_files_below_the_folder_are_found),
        cmocka_unit_test(a_file_for_which_no_descriptor_is_left_is_not_missing),
        cmocka_unit_test(a_list_of_names_is_sorted_and_an_empty_one_holds_no_memory),
        cmocka_unit_test(a_longer_text_is_cut_at_its_begin_and_a_longer_document_refused),
        cmocka_unit_test(lines_of_a_log_are_found_by_node_level_and_text_page_by_page),
        cmocka_unit_test(a_report_is_small_whatever_the_number_of_nodes_and_rows),
        cmocka_unit_test(a_folder_without_a_valid_run_json_has_no_report),
        cmocka_unit_test(sums_that_are_not_finite_are_null_in_a_matrix),
        cmocka_unit_test(results_of_a_job_that_was_never_tested_are_marked_as_those_of_training),
        cmocka_unit_test(a_confusion_matrix_takes_time_by_its_rows_and_not_by_its_classes_in_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
