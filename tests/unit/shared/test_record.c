#include "shared/records/record.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "shared/base/rng.h"
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

TEST(a_row_has_the_columns_of_the_table_in_order)
{
    const char *folder = unit_folder();
    struct record_file f;
    struct err e = {0};

    assert_ok(record_open(&f, path_in(folder), record_eval_columns, &e));
    assert_ok(record_write(&f, &row, sizeof row, 1, &e));
    assert_file_is(path_in(folder), HEADER);
    assert_ok(record_flush(&f, &e));
    assert_file_is(path_in(folder), HEADER LINE);
    assert_ok(record_flush(&f, &e));
    record_close(&f);
    assert_file_is(path_in(folder), HEADER LINE);
    unit_remove(folder);
}

enum { CELLS = 128 };

/* The row with this number in two columns, seconds and loss. */
static void print_loss(char out[CELLS], double loss)
{
    const char *folder = unit_folder();
    struct record_eval r = row;
    struct record_file f;
    struct err e = {0};
    char *text, *cell;
    size_t len;

    r.loss = r.time_s = loss;
    assert_ok(record_open(&f, path_in(folder), record_eval_columns, &e));
    assert_ok(record_write(&f, &r, sizeof r, 1, &e));
    assert_ok(record_flush(&f, &e));
    record_close(&f);
    assert_ok(file_read(&text, &len, path_in(folder), 1 << 20, &e));
    cell = strchr(text, '\n') + 1;
    snprintf(out, CELLS, "%.*s", (int)strcspn(cell, "\n"), cell);
    free(text);
    unit_remove(folder);
}

TEST(numbers_are_formatted_as_by_printf)
{
    static const double edges[] = {
        0,           0.5,        1,           0.1,  1e-3,        9.99999999e-4, 9.9999999949,
        9.999999996, 99999999.9, 99999999.96, 1e8,  123456789.5, -0.25,         -3.4e38,
        16777217.0,  1.0 / 3,    2e-7,        5e-7, 1e15,        0.0000015,     1234567.0000005};
    struct rng rng;

    rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < 2000 + N_OF(edges); i++) {
        double v = i < N_OF(edges) ? edges[i]
                   : i % 2         ? (double)rng_uniform(&rng) * pow(10, (double)(i % 17) - 5)
                           : round((double)rng_uniform(&rng) * 1e5) / 1e5 + 0.5e-6; /* near the middle */
        char cells[CELLS], expected[CELLS];

        print_loss(cells, v);
        snprintf(expected, sizeof expected, "%.6f,1,2,3,4,%.9g,nan,9007199254740992,0", v, v);
        assert_string_equal(cells, expected);
    }
}

TEST(a_printed_float_is_restored_to_the_same_bits)
{
    static const float values[] = {0.1f, 1.0f / 3, 1e-38f, 3.4e38f, 16777217.0f};

    for (size_t i = 0; i < N_OF(values); i++) {
        char cells[CELLS];

        print_loss(cells, (double)values[i]);
        for (int k = 0; k < 5; k++)
            memmove(cells, strchr(cells, ',') + 1, strlen(strchr(cells, ',')));
        assert_true(strtof(cells, NULL) == values[i]);
    }
}

TEST(missing_values_are_empty_and_infinite_ones_named)
{
    const char *folder = unit_folder();
    struct record_eval r = row;
    struct record_file f;
    struct err e = {0};

    r.loss = RECORD_MISSING;
    r.accuracy = -INFINITY;
    assert_ok(record_open(&f, path_in(folder), record_eval_columns, &e));
    assert_ok(record_write(&f, &r, sizeof r, 1, &e));
    assert_ok(record_flush(&f, &e));
    record_close(&f);
    assert_file_is(path_in(folder), HEADER "1.500000,1,2,3,4,,-inf,9007199254740992,0\n");
    unit_remove(folder);
}

TEST(a_header_that_is_too_long_is_refused)
{
    const char *folder = unit_folder();
    struct record_column columns[RECORD_COLUMNS_MAX] = {{0}};
    struct record_file f;
    char name[100];
    struct err e = {0};

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (size_t i = 0; i + 1 < RECORD_COLUMNS_MAX; i++)
        columns[i] = (struct record_column){name, RECORD_INT, 0, ""};
    assert_int_equal(record_open(&f, path_in(folder), columns, &e), ERR_INTERNAL);
    assert_int_equal(access(path_in(folder), F_OK), -1);
    unit_remove(folder);
}

TEST(an_existing_file_is_never_overwritten)
{
    const char *folder = unit_folder();
    struct record_file f;
    struct err e = {0};

    assert_ok(file_write(path_in(folder), "mine", 4, 0644, &e));
    assert_int_equal(record_open(&f, path_in(folder), record_eval_columns, &e), ERR_IO);
    assert_file_is(path_in(folder), "mine");
    unit_remove(folder);
}

TEST(rows_that_do_not_fit_on_the_disk_leave_whole_rows)
{
    const char *folder = unit_folder();
    const size_t limit = strlen(HEADER) + 3 * strlen(LINE) + 10;
    struct rlimit old, small;
    struct record_file f;
    struct err e = {0};

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){limit, old.rlim_max};
    assert_ok(record_open(&f, path_in(folder), record_eval_columns, &e));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (size_t i = 0; i < 2; i++)
        assert_ok(record_write(&f, &row, sizeof row, 1, &e));
    assert_ok(record_flush(&f, &e));
    for (size_t i = 0; i < 5; i++)
        assert_ok(record_write(&f, &row, sizeof row, 1, &e));
    assert_int_equal(record_flush(&f, &e), ERR_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_ok(record_flush(&f, &e));
    record_close(&f);
    assert_file_is(path_in(folder), HEADER LINE LINE LINE);
    unit_remove(folder);
}

TEST(buffered_rows_are_written_in_bounded_time)
{
    const size_t n_rows = 3 * RECORD_HELD / strlen(LINE);
    const char *folder = unit_folder();
    struct record_file f;
    struct err e = {0};
    char *text;
    size_t len;

    assert_ok(record_open(&f, path_in(folder), record_eval_columns, &e));
    for (size_t i = 0; i < n_rows; i++)
        assert_ok(record_write(&f, &row, sizeof row, 1, &e));
    assert_ok(file_read(&text, &len, path_in(folder), 1 << 20, &e));
    assert_true(len > RECORD_HELD && len + RECORD_HELD > n_rows * strlen(LINE));
    assert_memory_equal(text + len - strlen(LINE), LINE, strlen(LINE));
    free(text);
    assert_ok(record_sync(&f, &e));
    record_close(&f);
    assert_ok(file_read(&text, &len, path_in(folder), 1 << 20, &e));
    assert_int_equal(len, strlen(HEADER) + n_rows * strlen(LINE));
    free(text);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_the_columns_of_the_table_in_order),
        cmocka_unit_test(numbers_are_formatted_as_by_printf),
        cmocka_unit_test(a_printed_float_is_restored_to_the_same_bits),
        cmocka_unit_test(missing_values_are_empty_and_infinite_ones_named),
        cmocka_unit_test(a_header_that_is_too_long_is_refused),
        cmocka_unit_test(an_existing_file_is_never_overwritten),
        cmocka_unit_test(rows_that_do_not_fit_on_the_disk_leave_whole_rows),
        cmocka_unit_test(buffered_rows_are_written_in_bounded_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
