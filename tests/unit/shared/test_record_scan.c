#include "shared/records/record_scan.h"

#include <fcntl.h>
#include <math.h>

#include "shared/base/rng.h"
#include "shared/records/record.h"
#include "tests/unit/unit.h"

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
        cmocka_unit_test(the_chosen_columns_are_read_wherever_the_file_has_them),
        cmocka_unit_test(a_row_that_is_not_complete_yet_is_left_out),
        cmocka_unit_test(a_file_without_a_needed_column_is_refused_with_its_name),
        cmocka_unit_test(an_error_of_the_caller_ends_the_scan),
        cmocka_unit_test(too_many_columns_and_too_long_a_row_are_refused),
        cmocka_unit_test(a_file_of_many_chunks_has_every_row_once),
        cmocka_unit_test(numbers_are_those_of_strtod_to_the_bit),
        cmocka_unit_test(a_cell_that_is_not_a_number_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
