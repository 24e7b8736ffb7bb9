#include "submit/results/run.h"

#include <sys/stat.h>

#include <limits.h>
#include <math.h>

#include "tests/unit/unit.h"

static struct err e;

static void put(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];

    assert_ok(file_join(path, sizeof path, folder, "records", &e));
    assert_ok(file_mkdirs(path, 0700, &e));
    assert_ok(file_join(path, sizeof path, folder, name, &e));
    assert_ok(file_write(path, text, strlen(text), 0600, &e));
}

struct seen {
    char text[400];
    int n, fail_at;
};

static int note(void *with, const struct record_text *cells, struct err *err)
{
    const struct artifact *a = &artifacts[ARTIFACT_EVAL];
    struct seen *s = with;
    size_t len = strlen(s->text);

    if (++s->n == s->fail_at)
        return err_set(err, ERR_INTERNAL, "row %d", s->n);
    for (size_t i = 0; a->columns[i].name; i++)
        len += (size_t)snprintf(s->text + len, sizeof s->text - len, "%.*s|", (int)cells[i].len,
                                cells[i].text);
    return 0;
}

static int read_text(struct seen *s, const char *folder, const char *text)
{
    put(folder, "records/eval.csv", text);
    return run_rows(folder, &artifacts[ARTIFACT_EVAL], note, s, &e);
}

TEST(cells_come_in_the_order_of_the_columns_whatever_the_file_has)
{
    const char *folder = unit_folder();
    struct seen none = {0}, other = {0}, broken = {0}, failing = {.fail_at = 1};

    assert_ok(run_rows(folder, &artifacts[ARTIFACT_EVAL], note, &none, &e));
    assert_int_equal(none.n, 0);
    /* Another order, a new column, one missing; a short row and a cut one. */
    assert_ok(read_text(&other, folder,
                        "node,time_s,new,epoch,step,samples,accuracy,sent_bytes_total,recv_bytes_total\n"
                        "0,1.5,x,1,2,3,0.25,7,8\n1,2\n-2,,y,1,2,3,nan,7,8\n0,3,z,1,2,3,0.2"));
    assert_string_equal(other.text, "1.5|0|1|2|3||0.25|7|8|||||-2|1|2|3||nan|7|8||||");
    assert_int_equal(read_text(&broken, folder, "a,b\n1,2\n"), ERR_PROTOCOL);
    assert_error_has("eval.csv: there is no column node");
    assert_int_equal(read_text(&failing, folder, "time_s,node\n1,2\n1,2\n"), ERR_INTERNAL);
    assert_string_equal(e.text, "row 1");
    unit_remove(folder);
}

TEST(a_pipe_in_place_of_records_blocks_no_reader_and_an_endless_row_is_refused)
{
    const char *folder = unit_folder();
    struct seen s = {0};
    char path[PATH_MAX];

    assert_ok(read_text(&s, folder, "time_s,node\n"));
    assert_ok(file_join(path, sizeof path, folder, "records/eval.csv", &e));
    assert_int_equal(truncate(path, 1 << 30), 0);
    assert_int_equal(run_rows(folder, &artifacts[ARTIFACT_EVAL], note, &s, &e), ERR_PROTOCOL);
    assert_error_has("eval.csv: a row is longer than");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_ok(run_rows(folder, &artifacts[ARTIFACT_EVAL], note, &s, &e));
    assert_int_equal(s.n, 0);
    unit_remove(folder);
}

TEST(a_cells_number_ends_with_the_cell)
{
    static const struct record_text cells[] = {{"1.5,-2e3", 3}, {"-2e3,nan", 4}, {"nan,,x,7", 3},
                                               {",x,7", 0},     {"x,7", 1},      {"7", 1}};

    assert_true(run_number(&cells[0]) == 1.5);
    assert_true(run_number(&cells[1]) == -2000);
    for (int i = 2; i < 5; i++)
        assert_true(isnan(run_number(&cells[i])));
    assert_true(run_number(&cells[5]) == 7);
}

static int note_scalars(const struct scalars *s, void *with, struct err *err)
{
    char *text = with;
    size_t len = strlen(text);

    (void)err;
    len += (size_t)snprintf(text + len, 600 - len, "%d@%llu:", s->node, (unsigned long long)s->step);
    for (size_t i = 0; i < s->n; i++)
        len += (size_t)snprintf(text + len, 600 - len, " %s=%g", s->at[i].tag, s->at[i].value);
    snprintf(text + len, 600 - len, "\n");
    return 0;
}

TEST(each_row_has_the_values_of_its_columns_or_a_named_one)
{
    const char *folder = unit_folder();
    char text[600] = "";

    put(folder, "records/eval.csv",
        "time_s,node,epoch,step,samples,loss,accuracy,sent_bytes_total,recv_bytes_total\n"
        "1,0,1,2,3,0.5,,7,8\n,1,1,2,3,0.5,0.25,7,8\n");
    put(folder, "records/metrics.csv",
        "time_s,node,epoch,step,metric,value\n1,0,1,2,top5,0.75\n2,0,1,4,auc,\n");
    /* A codec's own names become parts of file names. */
    put(folder, "records/codec.csv",
        "time_s,node,step,round,name,value\n1,-2,3,1,../../etc/x,1\n1,-2,3,1,..,2\n1,-2,3,1,a b.c-d_E,3\n");
    assert_ok(run_scalars(folder, note_scalars, text, &e));
    assert_string_equal(text, "0@2: eval/loss=0.5 eval/sent_bytes_total=7 eval/recv_bytes_total=8\n"
                              "0@2: eval/top5=0.75\n"
                              "-2@3: codec/_._.._etc_x=1\n-2@3: codec/_.=2\n-2@3: codec/a b.c-d_E=3\n");
    unit_remove(folder);
}

TEST(the_start_of_a_node_is_the_reported_one_or_the_submission_of_the_job)
{
    json_t *run = json_pack("{s:s, s:[{s:i, s:s}, {s:i, s:s}]}", "submitted_at", "1970-01-01T00:00:10.000Z",
                            "nodes", "node", 0, "started_at", "1970-01-01T00:00:20.500Z", "node", -2,
                            "started_at", "");
    char name[RUN_NODE_NAME];

    assert_non_null(run);
    assert_true(run_node_began(run, 0) == 20.5);
    assert_true(run_node_began(run, -2) == 10);
    assert_true(run_node_began(run, 7) == 10);
    assert_true(run_node_began(NULL, 0) == 0);
    assert_string_equal(run_node_name(name, 3), "worker-3");
    assert_string_equal(run_node_name(name, -3), "ps-1");
    json_decref(run);
}

TEST(labels_are_one_line_of_any_length)
{
    json_t *facts = json_pack("{s:[s,i,s], s:s}", "tags", "a", 3, "b", "note", "two\nlines \x1b[1m");
    char text[RUN_LABELS_MAX], few[8];

    assert_string_equal(run_labels(text, sizeof text, facts), "#a #b  two?lines ?[1m");
    assert_string_equal(run_labels(few, sizeof few, facts), "#a #b  ");
    assert_string_equal(run_labels(text, sizeof text, NULL), "");
    json_decref(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_come_in_the_order_of_the_columns_whatever_the_file_has),
        cmocka_unit_test(a_pipe_in_place_of_records_blocks_no_reader_and_an_endless_row_is_refused),
        cmocka_unit_test(a_cells_number_ends_with_the_cell),
        cmocka_unit_test(each_row_has_the_values_of_its_columns_or_a_named_one),
        cmocka_unit_test(the_start_of_a_node_is_the_reported_one_or_the_submission_of_the_job),
        cmocka_unit_test(labels_are_one_line_of_any_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
