#include "submit/results/result_rows.h"

#include <sys/stat.h>

#include <limits.h>
#include <math.h>

#include "tests/unit/unit.h"

static struct err e;

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
    char path[PATH_MAX];

    assert_ok(file_join(path, sizeof path, folder, "records", &e));
    assert_ok(file_mkdirs(path, 0700, &e));
    assert_ok(file_join(path, sizeof path, folder, "records/eval.csv", &e));
    assert_ok(file_write(path, text, strlen(text), 0600, &e));
    return result_rows(folder, &artifacts[ARTIFACT_EVAL], note, s, &e);
}

TEST(cells_come_in_the_order_of_the_columns_whatever_the_file_has)
{
    const char *folder = unit_folder();
    struct seen none = {0}, other = {0}, broken = {0}, failing = {.fail_at = 1};

    assert_ok(result_rows(folder, &artifacts[ARTIFACT_EVAL], note, &none, &e));
    assert_int_equal(none.n, 0);
    /* Another order, a new column, one missing; a short row and a cut one. */
    assert_ok(read_text(&other, folder,
                        "node,time_s,new,epoch,step,samples,accuracy,sent_bytes_total,recv_bytes_total\n"
                        "0,1.5,x,1,2,3,0.25,7,8\n1,2\n-2,,y,1,2,3,nan,7,8\n0,3,z,1,2,3,0.2"));
    assert_string_equal(other.text, "1.5|0|1|2|3||0.25|7|8||-2|1|2|3||nan|7|8|");
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
    assert_int_equal(result_rows(folder, &artifacts[ARTIFACT_EVAL], note, &s, &e), ERR_PROTOCOL);
    assert_error_has("eval.csv: a row is longer than");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_ok(result_rows(folder, &artifacts[ARTIFACT_EVAL], note, &s, &e));
    assert_int_equal(s.n, 0);
    unit_remove(folder);
}

TEST(a_cells_number_ends_with_the_cell)
{
    static const struct record_text cells[] = {{"1.5,-2e3", 3}, {"-2e3,nan", 4}, {"nan,,x,7", 3},
                                               {",x,7", 0},     {"x,7", 1},      {"7", 1}};

    assert_true(result_number(&cells[0]) == 1.5);
    assert_true(result_number(&cells[1]) == -2000);
    for (int i = 2; i < 5; i++)
        assert_true(isnan(result_number(&cells[i])));
    assert_true(result_number(&cells[5]) == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_come_in_the_order_of_the_columns_whatever_the_file_has),
        cmocka_unit_test(a_pipe_in_place_of_records_blocks_no_reader_and_an_endless_row_is_refused),
        cmocka_unit_test(a_cells_number_ends_with_the_cell),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
