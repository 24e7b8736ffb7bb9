#include "shared/record.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "tests/unit/unit.h"

static const struct record_eval row = {.time_s = 1.5,
                                       .node = 1,
                                       .epoch = 2,
                                       .step = 3,
                                       .samples = 4,
                                       .loss = 0.1f,
                                       .accuracy = NAN,
                                       .sent_bytes_total = 1ull << 53,
                                       .recv_bytes_total = 0};

static char *path_in(const char *folder)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/eval.csv", folder);
    return path;
}

static void assert_file_is(const char *path, const char *expected)
{
    struct err e = {0};
    char *text;
    size_t len;

    assert_ok(file_read(&text, &len, path, 1 << 20, &e));
    assert_string_equal(text, expected);
    free(text);
}

#define HEADER "time_s,node,epoch,step,samples,loss,accuracy,sent_bytes_total,recv_bytes_total\n"
#define LINE   "1.500000,1,2,3,4,0.100000001,nan,9007199254740992,0\n"

TEST(a_row_is_the_table_s_columns_in_order)
{
    const char *folder = unit_folder();
    struct record_file f;
    struct err e = {0};

    assert_ok(record_open(&f, path_in(folder), record_eval_columns, &e));
    assert_ok(record_write(&f, &row, sizeof row, 1, &e));
    record_close(&f);
    assert_file_is(path_in(folder), HEADER LINE);
    unit_remove(folder);
}

TEST(a_float_reads_back_to_the_same_bits)
{
    static const float values[] = {0.1f, 1.0f / 3, 1e-38f, 3.4e38f, 16777217.0f};

    for (size_t i = 0; i < N_OF(values); i++) {
        char text[64];

        snprintf(text, sizeof text, "%.9g", (double)values[i]);
        assert_true(strtof(text, NULL) == values[i]);
    }
}

TEST(what_is_missing_is_empty_and_what_is_infinite_says_so)
{
    const char *folder = unit_folder();
    struct record_eval r = row;
    struct record_file f;
    struct err e = {0};

    r.loss = RECORD_MISSING;
    r.accuracy = -INFINITY;
    assert_ok(record_open(&f, path_in(folder), record_eval_columns, &e));
    assert_ok(record_write(&f, &r, sizeof r, 1, &e));
    record_close(&f);
    assert_file_is(path_in(folder), HEADER "1.500000,1,2,3,4,,-inf,9007199254740992,0\n");
    unit_remove(folder);
}

TEST(a_file_that_exists_is_never_written_over)
{
    const char *folder = unit_folder();
    struct record_file f;
    struct err e = {0};

    assert_ok(file_write(path_in(folder), "mine", 4, 0644, &e));
    assert_int_equal(record_open(&f, path_in(folder), record_eval_columns, &e), ERR_IO);
    assert_file_is(path_in(folder), "mine");
    unit_remove(folder);
}

TEST(a_row_that_does_not_fit_leaves_whole_rows_behind)
{
    const char *folder = unit_folder();
    const size_t rows_that_fit = 3, limit = strlen(HEADER) + rows_that_fit * strlen(LINE) + 10;
    struct rlimit old, small;
    struct record_file f;
    struct err e = {0};
    size_t n = 0;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){limit, old.rlim_max};
    assert_ok(record_open(&f, path_in(folder), record_eval_columns, &e));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    while (record_write(&f, &row, sizeof row, 1, &e) == 0)
        n++;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    record_close(&f);
    assert_int_equal(n, rows_that_fit);
    assert_file_is(path_in(folder), HEADER LINE LINE LINE);
    unit_remove(folder);
}

TEST(many_rows_go_out_at_once)
{
    const char *folder = unit_folder();
    struct record_eval rows[200];
    struct record_file f;
    struct err e = {0};
    char *text;
    size_t len;

    for (size_t i = 0; i < N_OF(rows); i++)
        rows[i] = row;
    assert_ok(record_open(&f, path_in(folder), record_eval_columns, &e));
    assert_ok(record_write(&f, rows, sizeof *rows, N_OF(rows), &e));
    record_close(&f);
    assert_ok(file_read(&text, &len, path_in(folder), 1 << 20, &e));
    assert_int_equal(len, strlen(HEADER) + N_OF(rows) * strlen(LINE));
    free(text);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_the_table_s_columns_in_order),
        cmocka_unit_test(a_float_reads_back_to_the_same_bits),
        cmocka_unit_test(what_is_missing_is_empty_and_what_is_infinite_says_so),
        cmocka_unit_test(a_file_that_exists_is_never_written_over),
        cmocka_unit_test(a_row_that_does_not_fit_leaves_whole_rows_behind),
        cmocka_unit_test(many_rows_go_out_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
