#include "submit/browse/run_label.h"

#include "submit/files/run_file.h"
#include "tests/unit/unit.h"

static struct err e;
static const char *folder;

static void put(const char *name, const char *text)
{
    char path[160];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    *strrchr(path, '/') = '\0';
    assert_ok(file_mkdirs(path, 0777, &e));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(file_write(path, text, strlen(text), 0644, &e));
}

/* Results of a job, and a copy of them, whose other half, in the index, names the first. */
static void begin(const char *state)
{
    char text[512];

    folder = unit_folder();
    setenv("XDG_STATE_HOME", folder, 1);
    snprintf(text, sizeof text,
             "{\"id\":\"j-1aaaa\",\"name\":\"n\",\"state\":\"%s\",\"facts\":{\"note\":\"old\"},\"files\":[]}",
             state);
    put("of_job/run.json", text);
    put("copy/run.json", text);
    snprintf(text, sizeof text, "{\"id\":\"j-1aaaa\",\"folder\":\"%s/of_job\",\"facts\":{\"codec\":{}}}",
             folder);
    put("psgd/jobs/j-1aaaa.json", text);
}

static int set(const char *name, const char *key, json_t *value)
{
    char path[160];
    json_t *labels = json_pack("{s:o}", key, value);
    struct run r;
    int rc;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(run_find(&r, path, &e));
    rc = run_label_set(&r, labels, &e);
    run_clear(&r);
    json_decref(labels);
    return rc;
}

/* What a JSON file has under facts. */
static void assert_facts(const char *name, const char *expected)
{
    char path[160];
    json_t *doc;
    char *text;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    doc = json_load_file(path, 0, NULL);
    text = json_dumps(json_object_get(doc, "facts"), JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, expected);
    free(text);
    json_decref(doc);
}

TEST(a_note_replaces_the_one_in_run_json_in_the_report_and_in_the_index)
{
    char path[160], *text;
    json_t *run, *file;
    size_t len;

    begin("succeeded");
    assert_ok(set("of_job", "note", json_string("</script>new")));
    assert_ok(set("of_job", "tags", json_pack("[s]", "a")));
    assert_facts("of_job/run.json", "{\"note\":\"</script>new\",\"tags\":[\"a\"]}");
    assert_facts("psgd/jobs/j-1aaaa.json", "{\"codec\":{},\"note\":\"</script>new\",\"tags\":[\"a\"]}");
    snprintf(path, sizeof path, "%s/of_job/report.html", folder);
    assert_ok(file_read(&text, &len, path, 16 << 20, &e));
    assert_non_null(strstr(text, "\"note\":\"\\u003c/script\\u003enew\""));
    free(text);
    snprintf(path, sizeof path, "%s/of_job", folder);
    assert_ok(run_file_read(&run, path, &e));
    file = json_array_get(json_object_get(run, "files"), 0);
    assert_int_equal(json_array_size(json_object_get(run, "files")), 1);
    assert_int_equal(json_integer_value(json_object_get(file, "bytes")), len);
    json_decref(run);
    unit_remove(folder);
}

TEST(a_note_of_a_copy_is_not_that_of_the_job)
{
    begin("failed");
    assert_ok(set("copy", "note", json_string("mine")));
    assert_facts("copy/run.json", "{\"note\":\"mine\"}");
    assert_facts("of_job/run.json", "{\"note\":\"old\"}");
    assert_facts("psgd/jobs/j-1aaaa.json", "{\"codec\":{}}");
    unit_remove(folder);
}

TEST(a_job_that_has_not_ended_gets_no_note)
{
    begin("running");
    assert_int_equal(set("of_job", "note", json_string("early")), ERR_CONFLICT);
    assert_error_has("has not ended");
    assert_string_equal(e.hint, "job_submit wait j-1aaaa waits for its end.");
    assert_int_equal(set("copy", "note", json_string("early")), ERR_CONFLICT);
    assert_string_equal(e.hint, "");
    assert_facts("of_job/run.json", "{\"note\":\"old\"}");
    unit_remove(folder);
}

TEST(an_id_that_is_no_name_of_a_record_is_not_looked_for)
{
    static const char *const ids[] = {"j-/../j-1", "j-a-b", "j-", "../j-1aaaa"};

    begin("succeeded");
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char path[160], text[80];
        struct run r;

        snprintf(text, sizeof text, "{\"id\":\"%s\",\"state\":\"cancelled\"}", ids[i]);
        put("of_job/run.json", text);
        snprintf(path, sizeof path, "%s/of_job", folder);
        assert_int_equal(run_find(&r, path, &e), ERR_CONFIG);
        assert_error_has("run.json: /id: not the id of a job");
    }
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_note_replaces_the_one_in_run_json_in_the_report_and_in_the_index),
        cmocka_unit_test(a_note_of_a_copy_is_not_that_of_the_job),
        cmocka_unit_test(a_job_that_has_not_ended_gets_no_note),
        cmocka_unit_test(an_id_that_is_no_name_of_a_record_is_not_looked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
