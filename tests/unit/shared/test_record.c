#include "shared/records/record.h"

#include <fcntl.h>
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
                                       .recv_bytes_total = 0,
                                       .perplexity = RECORD_MISSING,
                                       .bits_per_byte = RECORD_MISSING};

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

#define HEADER                                                                                               \
    "time_s,node,epoch,step,samples,loss,accuracy,sent_bytes_total,recv_bytes_total,tokens,"                 \
    "perplexity,bits_per_byte\n"
#define LINE "1.500000,1,2,3,4,0.100000001,nan,9007199254740992,0,0,,\n"

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
        snprintf(expected, sizeof expected, "%.6f,1,2,3,4,%.9g,nan,9007199254740992,0,0,,", v, v);
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
    assert_file_is(path_in(folder), HEADER "1.500000,1,2,3,4,,-inf,9007199254740992,0,0,,\n");
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

static const char *const columns[] = {"step", "loss", "later"};

struct rows {
    size_t n;
    double step[8], loss[8], later[8];
};

static int keep(void *ctx, const struct record_text *cells, struct err *e)
{
    struct rows *r = ctx;

    if (r->n == N_OF(r->step))
        return err_set(e, ERR_CANCELLED, "enough");
    r->step[r->n] = record_number(&cells[0]);
    r->loss[r->n] = record_number(&cells[1]);
    r->later[r->n] = record_number(&cells[2]);
    r->n++;
    return 0;
}

static struct record_scan scan_to(struct rows *r)
{
    *r = (struct rows){.n = 0};
    return (struct record_scan){
        .what = "train.csv", .columns = columns, .n = 3, .needed = 0x3, .row = keep, .ctx = r};
}

static int scan(struct rows *r, const char *text, struct err *e)
{
    const struct record_scan s = scan_to(r);
    size_t len = strlen(text);
    char *copy = unit_copy(text, len);
    int rc = record_scan_text(&s, copy, len, e);

    free(copy);
    return rc;
}

TEST(the_chosen_columns_are_read_wherever_the_file_has_them)
{
    struct rows r;
    struct err e;

    assert_ok(scan(&r, "a,loss,step,b\nx,0.5,1,y\n,,2,\nz,nan\n", &e));
    assert_int_equal(r.n, 3);
    assert_true(r.step[0] == 1 && r.loss[0] == 0.5 && r.later[0] == RECORD_MISSING);
    assert_true(r.step[1] == 2 && r.loss[1] == RECORD_MISSING);
    assert_true(r.step[2] == RECORD_MISSING && isnan(r.loss[2])); /* a row that is too short */
}

TEST(a_row_that_is_not_complete_yet_is_left_out)
{
    struct rows r;
    struct err e;

    assert_ok(scan(&r, "step,loss\n1,0.5\n2,0.", &e));
    assert_int_equal(r.n, 1);
    assert_ok(scan(&r, "step,lo", &e));
    assert_ok(scan(&r, "", &e));
    assert_int_equal(r.n, 0);
}

TEST(a_file_without_a_needed_column_is_refused_with_its_name)
{
    struct rows r;
    struct err e;

    assert_int_equal(scan(&r, "step,accuracy\n1,1\n", &e), ERR_PROTOCOL);
    assert_error_has("train.csv: there is no column loss");
}

TEST(an_error_of_the_caller_ends_the_scan)
{
    struct rows r;
    struct err e;

    assert_int_equal(scan(&r, "step,loss\n1,1\n1,1\n1,1\n1,1\n1,1\n1,1\n1,1\n1,1\n1,1\n1,1\n", &e),
                     ERR_CANCELLED);
}

TEST(too_many_columns_and_too_long_a_row_are_refused)
{
    struct rows r;
    const struct record_scan s = scan_to(&r);
    char *text = malloc(1 << 17);
    struct err e;

    assert_non_null(text);
    memset(text, ',', 1 << 17);
    memcpy(text, "step,loss", 9);
    text[RECORD_SCAN_WIDTH + 20] = '\n';
    assert_int_equal(record_scan_text(&s, text, 1 << 10, &e), ERR_PROTOCOL);
    assert_error_has("columns");
    memcpy(text, "step,loss\n", 10);
    text[RECORD_SCAN_WIDTH + 20] = ',';
    assert_int_equal(record_scan_text(&s, text, 1 << 17, &e), ERR_PROTOCOL);
    assert_error_has("a row is longer");
    free(text);
}

static int count(void *ctx, const struct record_text *cells, struct err *e)
{
    size_t *n = ctx;

    if (record_number(&cells[0]) != (double)*n)
        return err_set(e, ERR_INTERNAL, "row %zu is another one", *n);
    ++*n;
    return 0;
}

/* The buffer is of 1 MiB: rows lie across its end. */
TEST(a_file_of_many_chunks_has_every_row_once)
{
    enum { ROWS = 100000 };
    const char *folder = unit_folder();
    size_t n = 0;
    const struct record_scan s = {
        .what = "n.csv", .columns = columns, .n = 1, .needed = 0x1, .row = count, .ctx = &n};
    struct err e;
    char path[256];
    FILE *f;
    int fd;

    snprintf(path, sizeof path, "%s/n.csv", folder);
    assert_non_null(f = fopen(path, "w"));
    fputs("filler,step\n", f);
    for (int i = 0; i < ROWS; i++)
        fprintf(f, "cells of a column that is not read %d,%d\n", i, i);
    assert_int_equal(fclose(f), 0);
    assert_true((fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0);
    assert_ok(record_scan_file(&s, fd, &e));
    assert_int_equal(n, ROWS);
    close(fd);
    unit_remove(folder);
}

static double number(const char *text)
{
    size_t len = strlen(text);
    char *copy = unit_copy(text, len);
    const struct record_text cell = {copy, len};
    double v = record_number(&cell);

    free(copy);
    return v;
}

TEST(numbers_are_those_of_strtod_to_the_bit)
{
    static const char *const texts[] = {"0",
                                        "-0",
                                        "1",
                                        "0.1",
                                        "1.00000001e-05",
                                        "1e22",
                                        "1e23",
                                        "1e-300",
                                        "3.4e38",
                                        "9007199254740993",
                                        ".5",
                                        "5.",
                                        "-12.75e+02",
                                        "1.17549e-38",
                                        "18446744073709551615",
                                        "1e400",
                                        "inf",
                                        "-inf",
                                        "0.000000000000000000000001",
                                        "123456.789012345678901234"};
    struct rng g;
    char text[40];

    rng_init(&g, 1, 2, 3);
    for (size_t i = 0; i < N_OF(texts); i++) {
        double expected = strtod(texts[i], NULL);
        double v = number(texts[i]);

        assert_memory_equal(&v, &expected, sizeof v);
    }
    for (int i = 0; i < 100000; i++) {
        uint32_t bits = (uint32_t)rng_u64(&g);
        double v, expected;
        float f;

        memcpy(&f, &bits, sizeof f);
        if (isnan(f))
            continue;
        snprintf(text, sizeof text, "%.9g", (double)f);
        v = number(text);
        expected = strtod(text, NULL);
        assert_memory_equal(&v, &expected, sizeof v);
    }
}

TEST(a_line_has_any_bytes_as_printable_ascii_of_one_cell)
{
    char bytes[512], line[3 * sizeof bytes + 1], again[sizeof line];
    struct record_text cell = {line, 0};

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    record_put_line(line, bytes, sizeof bytes);
    cell.len = strlen(line);
    for (size_t i = 0; i < cell.len; i++)
        assert_true(line[i] >= ' ' && line[i] <= '~' && line[i] != ',' && line[i] != '"');
    assert_int_equal(record_line_bytes(again, &cell), sizeof bytes);
    assert_memory_equal(again, bytes, sizeof bytes);
    cell = (struct record_text){"%4%GG%", 6};
    assert_int_equal(record_line_bytes(again, &cell), 6);
    assert_memory_equal(again, "%4%GG%", 6);
}

TEST(a_row_with_a_long_line_is_written_whole)
{
    const char *folder = unit_folder();
    char *line = malloc(50001), *expected = malloc(60000);
    struct record_sample sample = {.time_s = 1, .epoch = 2, .step = 3, .prompt = "a", .text = line};
    struct record_file f;
    struct err e = {0};

    memset(line, 'x', 50000);
    line[50000] = '\0';
    snprintf(expected, 60000, "time_s,node,epoch,step,prompt,text\n1.000000,0,2,3,a,%s\n", line);
    assert_ok(record_open(&f, path_in(folder), record_sample_columns, &e));
    assert_ok(record_write(&f, &sample, sizeof sample, 1, &e));
    assert_ok(record_flush(&f, &e));
    record_close(&f);
    assert_file_is(path_in(folder), expected);
    free(line);
    free(expected);
    unit_remove(folder);
}

TEST(a_cell_that_is_not_a_number_is_missing)
{
    static const char *const texts[] = {
        "",    "-",  "e5",    "1e",
        "1e+", "1 ", "1.2.3", "0x",
        "one", "1,", "--1",   "1111111111111111111111111111111111111111111111111111111111111111111"};

    for (size_t i = 0; i < N_OF(texts); i++)
        assert_true(number(texts[i]) == RECORD_MISSING);
    assert_true(isnan(number("nan")));
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
        cmocka_unit_test(the_chosen_columns_are_read_wherever_the_file_has_them),
        cmocka_unit_test(a_row_that_is_not_complete_yet_is_left_out),
        cmocka_unit_test(a_file_without_a_needed_column_is_refused_with_its_name),
        cmocka_unit_test(an_error_of_the_caller_ends_the_scan),
        cmocka_unit_test(too_many_columns_and_too_long_a_row_are_refused),
        cmocka_unit_test(a_file_of_many_chunks_has_every_row_once),
        cmocka_unit_test(numbers_are_those_of_strtod_to_the_bit),
        cmocka_unit_test(a_line_has_any_bytes_as_printable_ascii_of_one_cell),
        cmocka_unit_test(a_row_with_a_long_line_is_written_whole),
        cmocka_unit_test(a_cell_that_is_not_a_number_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
