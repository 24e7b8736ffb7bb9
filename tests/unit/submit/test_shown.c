#include "submit/browse/shown.h"

#include <fcntl.h>

#include "submit/browse/documents.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_job_that_is_retried_only_the_last_attempt_is_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
