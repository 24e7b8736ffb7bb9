#include "submit/browse/documents.h"

#include <fcntl.h>

#include "shared/base/json.h"
#include "tests/unit/unit.h"

/* A file of a node that runs, in the folder of copies. */
static void put_copy(const char *copies, int node, int attempt, const char *name, const char *text)
{
    char folder[SHOWN_FOLDER];
    char path[300];
    struct err e;

    shown_node_folder(folder, node, attempt);
    snprintf(path, sizeof path, "%s/%s/records", copies, folder);
    assert_ok(file_mkdirs(path, 0700, &e));
    snprintf(path, sizeof path, "%s/%s/%s", copies, folder, name);
    assert_ok(file_write(path, text, strlen(text), 0600, &e));
}

static struct shown live_of(const char *copies, const char *run)
{
    struct shown s = {.dir = open(copies, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                      .run = json_loads(run, 0, NULL),
                      .is_live = true};

    assert_true(s.dir >= 0 && s.run);
    return s;
}

static json_t *losses_of(const struct shown *s)
{
    const struct series_query q = {.file = "train", .names = "loss", .x = "step"};
    struct series_request r;
    struct err e;
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    json_t *doc;
    json_t *losses;

    assert_ok(series_request_set(&r, &q, &e));
    assert_ok(document_series(out, s, &r, &e));
    fclose(out);
    doc = json_loads(text, 0, NULL);
    losses = json_incref(json_object_get(json_array_get(json_object_get(doc, "nodes"), 0), "loss"));
    json_decref(doc);
    free(text);
    return losses;
}

TEST(of_a_job_that_is_retried_only_the_last_attempt_is_shown)
{
    const char *folder = unit_folder();
    struct shown s = live_of(folder, "{\"nodes\": [{\"node\": 0, \"attempt\": 2}]}");
    struct err e;
    json_t *doc;
    json_t *losses;

    put_copy(folder, 0, 1, "records/train.csv", "node,step,loss\n0,1,9\n0,2,8\n0,3,7\n");
    put_copy(folder, 0, 1, "node.log", "first\n");
    put_copy(folder, 0, 2, "records/train.csv", "node,step,loss\n0,1,5\n");
    put_copy(folder, 0, 2, "node.log", "second\n");
    losses = losses_of(&s);
    assert_int_equal(json_array_size(losses), 1);
    assert_true(json_number_value(json_array_get(losses, 0)) == 5);
    json_decref(losses);
    assert_ok(document_log(&doc, &s, &(struct log_query){.limit = 9}, &e));
    assert_int_equal(json_array_size(json_object_get(doc, "lines")), 1);
    json_decref(doc);
    shown_clear(&s);
    unit_remove(folder);
}

/* "0:1 0:2 1:1 next 1:1": the lines of a log, in one text. */
static const char *log_of(const struct shown *s, struct log_query q)
{
    static char out[200];
    size_t len = 0;
    size_t i;
    struct err e;
    json_t *line;
    json_t *doc;

    assert_ok(document_log(&doc, s, &q, &e));
    json_array_foreach(json_object_get(doc, "lines"), i, line)
        len += (size_t)snprintf(out + len, sizeof out - len, "%s%d:%d", i ? " " : "",
                                (int)json_number_at(line, "node", 99), (int)json_number_at(line, "n", 0));
    if (shown_text(doc, "next"))
        snprintf(out + len, sizeof out - len, " next %s", shown_text(doc, "next"));
    json_decref(doc);
    return out;
}

TEST(pages_of_a_growing_log_follow_each_other_and_its_end_can_be_requested)
{
    const char *folder = unit_folder();
    struct shown s = live_of(folder, "{\"nodes\": [{\"node\": 0}, {\"node\": 1}]}");
    struct err e;
    json_t *doc;

    put_copy(folder, 0, 1, "node.log", "a\nb\nc\n");
    put_copy(folder, 1, 1, "node.log", "a\nerror\n");
    assert_string_equal(log_of(&s, (struct log_query){.limit = 2}), "0:1 0:2 next 0:2");
    put_copy(folder, 0, 1, "node.log", "a\nb\nc\nerror\n");
    assert_string_equal(log_of(&s, (struct log_query){.limit = 3, .after = "0:2"}), "0:3 0:4 1:1 next 1:1");
    put_copy(folder, 0, 1, "node.log", "a\nb\nc\nerror\ne\n");
    assert_string_equal(log_of(&s, (struct log_query){.limit = 3, .after = "1:1"}), "1:2");
    assert_string_equal(log_of(&s, (struct log_query){.limit = 3, .is_tail = true}), "0:5 1:1 1:2");
    assert_string_equal(log_of(&s, (struct log_query){.limit = 1, .is_tail = true, .level = "error"}), "1:2");
    assert_int_equal(document_log(&doc, &s, &(struct log_query){.after = "12"}, &e), ERR_USAGE);
    shown_clear(&s);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_job_that_is_retried_only_the_last_attempt_is_shown),
        cmocka_unit_test(pages_of_a_growing_log_follow_each_other_and_its_end_can_be_requested),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
