#include "submit/data/data_csv.h"

#include "submit/data/data_sets.h"
#include "tests/unit/unit.h"

static const struct csv_form labels = {.column = "", .header = "auto"};
static const struct csv_form target = {.column = "", .is_target = true, .header = "auto"};
static struct err e;

static char *text; /* the table's, of exactly its length */
static struct dataset_warnings warnings;

static int parse(struct data_table *t, const char *csv, const struct csv_form *form)
{
    struct csv_form f = *form;

    f.group = f.group ? f.group : "";
    f.drop = f.drop ? f.drop : "";
    free(text);
    text = unit_copy(csv, strlen(csv));
    dataset_warnings_clear(&warnings);
    return csv_parse(t, text, strlen(csv), &f, &warnings, &e);
}

static int drop_text(void **state)
{
    (void)state;
    free(text);
    text = NULL;
    dataset_warnings_clear(&warnings);
    return 0;
}

static void has_texts(const struct data_table *t, const char *const *texts)
{
    for (size_t i = 0; i < t->n_rows; i++) {
        assert_int_equal(t->texts[i].len, strlen(texts[i]));
        assert_memory_equal(t->texts[i].at, texts[i], strlen(texts[i]));
    }
}

TEST(csv_rows_are_numbers_and_a_label)
{
    static const char *const texts[] = {"cat", "dog"};
    static const float x[] = {1, 2.5f, -3e2f, .125f};
    struct data_table t;

    assert_ok(parse(&t, "1,2.5,cat\n-3e2, +.125 ,dog", &labels));
    assert_int_equal(t.n_rows, 2);
    assert_int_equal(t.n_values, 2);
    assert_memory_equal(t.x, x, sizeof x);
    has_texts(&t, texts);
    table_clear(&t);
}

TEST(quoted_fields_may_contain_commas_line_ends_and_quotes)
{
    static const char *const texts[] = {"a, b", "two\nlines", "the \"no\""};
    struct data_table t;

    assert_ok(parse(&t, "\"1\",\"a, b\"\r\n2,\"two\nlines\"\r\n3,\"the \"\"no\"\"\"\r\n", &labels));
    assert_int_equal(t.n_rows, 3);
    assert_int_equal(t.texts[2].line, 4);
    has_texts(&t, texts);
    table_clear(&t);
}

TEST(a_header_is_detected_by_its_names_or_declared)
{
    const struct csv_form yes = {.column = "", .header = "yes"}, no = {.column = "", .header = "no"};
    struct data_table t;

    assert_ok(parse(&t,
                    "\xef\xbb\xbf"
                    "a,b,c\n1,2,x\n",
                    &labels));
    assert_int_equal(t.n_rows, 1);
    table_clear(&t);
    assert_ok(parse(&t, "1,2,x\n3,4,y\n", &labels)); /* a label alone makes no header */
    assert_int_equal(t.n_rows, 2);
    table_clear(&t);
    assert_ok(parse(&t, "1,2,x\n3,4,y\n", &yes));
    assert_int_equal(t.n_rows, 1);
    table_clear(&t);
    assert_int_equal(parse(&t, "a,b,c\n1,2,x\n", &no), ERR_CONFIG);
    assert_error_has("line 1, column 1: \"a\" is not a number");
}

TEST(a_first_row_with_a_number_is_data_and_not_a_header)
{
    static const struct {
        const char *csv;
        const struct csv_form *form;
        const char *texts;
    } cases[] = {
        {"1,nan,0\n2,3,1\n", &labels, "line 1, column 2: \"nan\" is not a number"},
        {"1,NaN,0\n2,3,1\n", &labels, "line 1, column 2: \"NaN\" is not a number"},
        {"-inf,x,0\n2,3,1\n", &labels, "line 1, column 1: \"-inf\" is not a number"},
        {"+Infinity,nan,cat\n2,3,dog\n", &labels, "line 1, column 1: \"+Infinity\" is not a number"},
        {"1e99,x,cat\n2,3,dog\n", &labels, "line 1, column 1: \"1e99\" is not a number"},
        {"x,y,1\n2,3,0\n", &labels, "line 1, column 1: \"x\" is not a number"},
        {"id,2023,2024\n2,3,0\n", &target, "line 1, column 1: \"id\" is not a number"},
        {"1,2,y\n3,4,5\n", &target, "line 1, column 3: \"y\" is not a number"},
        {",1,cat\n2,3,dog\n", &labels, "line 1, column 1: empty, expected a number"},
    };
    struct csv_form yes = {.column = "", .is_target = true, .header = "yes"};
    struct data_table t;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(parse(&t, cases[i].csv, cases[i].form), ERR_CONFIG);
        assert_error_has(cases[i].texts);
        assert_non_null(strstr(e.hint, "header=yes"));
    }
    assert_ok(parse(&t, "id,2023,2024\n2,3,0\n", &yes));
    assert_int_equal(t.n_rows, 1);
    table_clear(&t);
    assert_ok(parse(&t, "-,infix,e\n2,3,0\n",
                    &labels)); /* not a number, though made of letters that occur in numbers */
    assert_int_equal(t.n_rows, 1);
    table_clear(&t);
    assert_int_equal(parse(&t, "a,b,c\n1,x,0\n", &labels), ERR_CONFIG);
    assert_null(strstr(e.hint, "header=yes"));
    assert_int_equal(parse(&t, "1,x,0\n", &(struct csv_form){.column = "", .header = "no"}), ERR_CONFIG);
    assert_null(strstr(e.hint, "header=yes"));
}

TEST(the_label_column_is_chosen_by_name_or_number)
{
    static const char *const texts[] = {"x", "y"};
    struct csv_form f = {.column = "kind", .header = "auto"};
    struct data_table t;

    assert_ok(parse(&t, "kind,a\nx,1\ny,2\n", &f));
    has_texts(&t, texts);
    assert_true(t.x[0] == 1 && t.x[1] == 2);
    table_clear(&t);
    f.column = "1";
    assert_ok(parse(&t, "x,1\ny,2\n", &f));
    has_texts(&t, texts);
    table_clear(&t);
    f.column = "3";
    assert_int_equal(parse(&t, "x,1\n", &f), ERR_CONFIG);
    assert_error_has("column 3 of 2, counted from 1");
    f.column = "0";
    assert_int_equal(parse(&t, "x,1\n", &f), ERR_CONFIG);
    f.column = "sort";
    assert_int_equal(parse(&t, "kind,a\nx,1\n", &f), ERR_CONFIG);
    assert_error_has("no column is called \"sort\" in line 1");
    f.column = "KIND";
    assert_int_equal(parse(&t, "kind,a\nx,1\n", &f), ERR_CONFIG);
    assert_string_equal(e.hint, "Did you mean \"kind\"?");
    f.column = "kind";
    assert_int_equal(parse(&t, "kind,a,kind\nx,1,y\n", &f), ERR_CONFIG);
    assert_error_has("columns 1 and 3 are both called \"kind\"");
}

static bool is_warned(const char *part)
{
    for (const char *one = NULL; (one = dataset_warning(&warnings, one)) != NULL;)
        if (strstr(one, part))
            return true;
    return false;
}

/* pandas names columns without names 0, 1, 2, ... */
TEST(a_first_row_that_counts_from_0_is_a_header_and_a_name_in_it_counts_before_a_position)
{
    static const struct {
        const char *csv, *column, *header;
        int n_rows;
        float x;          /* the first value */
        const char *text; /* the first label */
        const char *warning;
    } cases[] = {
        {"0,1,2\n5,6,a\n7,8,b\n", "", "auto", 2, 5, "a", "is taken for the header"},
        {"0,1,2,label\n5,6,4,a\n7,8,4,b\n", "", "auto", 2, 5, "a", "is taken for the header"},
        {",0,1,2\n0,5,6,a\n1,7,8,b\n", "", "auto", 2, 0, "a", "column 1 has no name"},
        {"0,1,2\n5,6,a\n7,8,b\n", "", "no", 3, 0, "2", NULL},
        {"0,1\n5,a\n7,b\n", "", "auto", 3, 0, "1", "counts 0, 1, ... and is taken for data"},
        {"1,2,3\n5,6,a\n7,8,b\n", "", "auto", 3, 1, "3", "counts 1, 2, ... and is taken for data"},
        {"0,1,2\na,5,6\nb,7,8\n", "0", "auto", 2, 5, "a", NULL},
        {"0,1,2\n5,a,6\n7,b,8\n", "1", "yes", 2, 5, "a", NULL},
        {"a,b,c\n5,6,x\n7,8,y\n", "3", "yes", 2, 5, "x", NULL},
        {"1,2,0\n5,x,8\n7,y,8\n", "2", "no", 3, 1, "2", NULL},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct csv_form f = {.column = cases[i].column, .header = cases[i].header};
        struct data_table t;

        assert_ok(parse(&t, cases[i].csv, &f));
        assert_int_equal(t.n_rows, cases[i].n_rows);
        assert_true(t.x[0] == cases[i].x);
        assert_int_equal(t.texts[0].len, strlen(cases[i].text));
        assert_memory_equal(t.texts[0].at, cases[i].text, strlen(cases[i].text));
        if (cases[i].warning)
            assert_true(is_warned(cases[i].warning));
        table_clear(&t);
    }
}

TEST(columns_and_rows_that_may_be_misunderstood_are_warned_of)
{
    static const struct {
        const char *csv, *warning;
    } cases[] = {
        {"Label,a,b\n0,1,2\n1,3,4\n", "column 1 is called \"Label\" and is taken for a value"},
        {"a,TARGET,label\n0,1,x\n1,3,y\n", "column 2 is called \"TARGET\""},
        {"a,y,kind\n0,1,x\n1,3,y\n", "label=2 or target=2 learns column 2"},
        {",a,kind\n7,1,x\n3,2,y\n", "column 1 has no name"},
        {"Unnamed: 0,a,kind\n7,1,x\n3,2,y\n", "column 1 has no name"},
        {"id,a,kind\n0,5,x\n1,5,y\n2,9,x\n", "column 1 counts the rows"},
        {"1,5,x\n2,5,y\n3,9,x\n", "column 1 counts the rows"},
        {"2023,2024,label\n2,5,y\n3,9,x\n4,7,y\n", "no other row has its label, \"label\""},
        {"a,b,a,kind\n7,1,8,x\n3,2,9,y\n", "two columns are called \"a\""},
        {"a,id,kind\n5,0,x\n5,1,y\n9,2,x\n", "column 2 counts the rows"},
        {"a,Unnamed: 3,kind\n7,1,x\n3,2,y\n", "column 2 has no name"},
        {"id,a\n1001,x\n1002,y\n1003,x\n1004,y\n1005,x\n1006,y\n1007,x\n1008,y\n1009,x\n1010,y\n",
         "column 1 counts the rows"},
        {"id,a\n10,x\n9,y\n8,x\n7,y\n6,x\n5,y\n4,x\n3,y\n2,x\n1,y\n", "column 1 counts the rows"},
        {"id,a\n0,x\n2,y\n4,x\n6,y\n8,x\n10,y\n12,x\n14,y\n16,x\n18,y\n", "column 1 counts the rows"},
        {"2019,2020,2021\n5,6,0\n7,8,1\n", "line 1 counts 2019, 2020, ... and is taken for data"},
        {"1990,2000,2010,2020\n5,6,2,0\n7,8,2,1\n", "line 1 counts 1990, 2000, ... and is taken for data"},
        {"-1,-2,-3\n5,6,0\n7,8,1\n", "line 1 counts -1, -2, ... and is taken for data"},
        {"8,3,2021\n5,6,0\n7,8,1\n4,4,1\n6,2,0\n", "no other row has its label, \"2021\""},
    };
    static const char *const clear[] = {
        "a,b,label\n5,6,x\n7,8,y\n9,8,y\n",
        "8,3,7\n5,6,0\n7,8,1\n4,4,1\n", /* the label 0 is in one row, too */
        "id,a\n10,x\n9,y\n8,x\n7,y\n6,x\n5,y\n4,x\n3,y\n2,x\n2,y\n",
        "1990,2000,2010\n5,6,0\n7,8,2010\n", /* three by chance */
    };
    struct data_table t;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_ok(parse(&t, cases[i].csv, &labels));
        assert_true(is_warned(cases[i].warning));
        table_clear(&t);
    }
    for (size_t i = 0; i < N_OF(clear); i++) {
        assert_ok(parse(&t, clear[i], &labels));
        assert_null(dataset_warning(&warnings, NULL));
        table_clear(&t);
    }
}

TEST(a_column_of_text_is_named_with_what_to_do_about_it)
{
    static const struct {
        const char *csv, *column, *drop;
        bool is_target;
        const char *text, *hint;
    } cases[] = {
        {"id,Name,Sex,Age,y\n1,Ann,f,30,0\n", "y", "id", false,
         "line 2, column 2, \"Name\": \"Ann\" is not a number", "drop=id+Name+Sex leaves"},
        {"a+b,7,c,c,y\nx,z,1,w,0\n", "", "", false, "line 2, column 1, \"a+b\"", "drop=1+2+4 leaves"},
        {"a,b,y\n(m),(s),(class)\n1,2,x\n", "", "", false, "line 2, column 1, \"a\": \"(m)\"",
         "No value of this line is a number."},
        {"a,b,y\n\"1,5\",2,x\n", "", "", false, "line 2, column 1, \"a\": \"1,5\"", "decimal=\",\""},
        {"# a comment\na,b,y\n", "", "", false, "line 1: a comment", "grep -v '^#'"},
        {"a;b;y\n1,5;2;x\n", "", "", false, "separated by semicolons", "sep=\";\""},
        {"a\tb\ty\n1\t2\tx\n", "", "", false, "separated by tabs", "sep=\"\\t\""},
        {"Class,a,b\ncat,1,2\n", "", "", false, "line 2, column 1, \"Class\": \"cat\"",
         "label=Class learns column 1"},
        {"a,b,y\n1,,0\n", "", "", false, "line 2, column 2, \"b\": empty, expected a number",
         "missing=drop leaves out rows with a missing cell, drop=b this column."},
        {"a,y\n1,cheap\n", "y", "", true, "line 2, column 2, \"y\": \"cheap\"", "label= takes texts"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct csv_form form = {.column = cases[i].column,
                                .is_target = cases[i].is_target,
                                .header = "yes",
                                .drop = cases[i].drop,
                                .group = ""};
        struct data_table t;

        assert_int_equal(parse(&t, cases[i].csv, &form), ERR_CONFIG);
        assert_error_has(cases[i].text);
        assert_non_null(strstr(e.hint, cases[i].hint));
    }
}

TEST(a_number_that_is_no_place_is_the_name_of_a_column)
{
    struct csv_form form = {.column = "2021", .is_target = true, .header = "auto", .drop = "", .group = ""};
    struct data_table t;

    assert_ok(parse(&t, "2019,2020,2021\n5,6,7\n8,9,10\n", &form));
    assert_int_equal(t.n_rows, 2);
    assert_true(t.targets[0] == 7 && t.targets[1] == 10);
    table_clear(&t);
    form.column = "2022";
    assert_int_equal(parse(&t, "2019,2020,2021\n5,6,7\n8,9,10\n", &form), ERR_CONFIG);
}

TEST(a_file_with_hundreds_of_faults_has_twenty_warnings_and_one_with_their_number)
{
    char csv[4096] = "";
    struct data_table t;
    size_t n = 0;

    for (int i = 0; i < 300; i++)
        strcat(csv, "label,");
    strcat(csv, "label\n");
    for (int i = 0; i < 300; i++)
        strcat(csv, "1,");
    strcat(csv, "x\n");
    assert_ok(parse(&t, csv, &labels));
    for (const char *one = NULL; (one = dataset_warning(&warnings, one)) != NULL;)
        n++;
    assert_int_equal(n, DATASET_WARNINGS_MAX + 1);
    assert_true(is_warned("further warnings about this file are left out"));
    table_clear(&t);
}

TEST(a_missing_label_is_refused_or_its_row_left_out_or_a_class)
{
    static const char *const missing[] = {"",     "NA",   "n/a",  "NaN", "?",   "null",
                                          "NULL", "None", "<NA>", "\\N", "\"\""};
    struct csv_form drop = labels, label = labels;
    char csv[64];
    struct data_table t;

    drop.missing = TABLE_MISSING_DROP;
    label.missing = TABLE_MISSING_LABEL;
    for (size_t i = 0; i < N_OF(missing); i++) {
        snprintf(csv, sizeof csv, "a,kind\n1,x\n2,%s\n3,y\n", missing[i]);
        assert_int_equal(parse(&t, csv, &labels), ERR_CONFIG);
        assert_error_has("line 3, column 2: the label is missing");
        assert_non_null(strstr(e.hint, "missing=drop"));
        assert_ok(parse(&t, csv, &drop));
        assert_int_equal(t.n_rows, 2);
        assert_true(t.x[1] == 3);
        assert_true(is_warned("1 of 3 rows have a missing cell and are left out"));
        table_clear(&t);
        if (missing[i][0] == '\0' || missing[i][0] == '"') {
            assert_int_equal(parse(&t, csv, &label), ERR_CONFIG);
            continue;
        }
        assert_ok(parse(&t, csv, &label));
        assert_int_equal(t.n_rows, 3);
        table_clear(&t);
    }
    assert_ok(parse(&t, "a,b\n1,2\nNA,3\n4,5\n", &drop)); /* a missing value, too */
    assert_int_equal(t.n_rows, 2);
    table_clear(&t);
    assert_int_equal(parse(&t, "a,b\n?,2\nNA,3\n", &drop), ERR_CONFIG);
    assert_error_has("each of its 2 rows has a missing cell");
    assert_int_equal(parse(&t, "a,b\n1,caf\xe9\n2,x\n", &labels), ERR_CONFIG);
    assert_error_has("line 2, column 2: the label is not UTF-8");
}

TEST(numbers_to_regress_that_are_taken_for_labels_are_warned_of)
{
    char csv[1000] = "a,price\n";
    struct table_classes c;
    struct data_table t;

    for (int i = 0; i < 30; i++)
        sprintf(csv + strlen(csv), "%d,%d.5\n", i % 3, i);
    assert_ok(parse(&t, csv, &labels));
    assert_ok(table_classes_find(&c, &t, &warnings, &e));
    assert_true(is_warned("the 30 rows have 30 different numbers as labels"));
    free(c.texts);
    table_clear(&t);
}

TEST(labels_that_people_read_alike_are_classes_and_a_warning)
{
    static const struct {
        const char *csv, *warning;
    } cases[] = {
        {"1,Cat\n1,cat\n1,dog\n", "\"Cat\" and \"cat\" are two classes"},
        {"1,1\n1,01\n1,2\n", "\"01\" and \"1\" are two classes"},
        {"1,big cat\n1,big\xc2\xa0"
         "cat\n1,dog\n",
         "are two classes"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct table_classes c;
        struct data_table t;

        assert_ok(parse(&t, cases[i].csv, &labels));
        assert_ok(table_classes_find(&c, &t, &warnings, &e));
        assert_int_equal(c.n, 3);
        assert_true(is_warned(cases[i].warning));
        free(c.texts);
        table_clear(&t);
    }
}

TEST(errors_are_reported_with_line_and_column)
{
    static const struct {
        const char *csv, *texts;
    } cases[] = {
        {"", "the file has no rows"},
        {"\n\r\n\n", "the file has no rows"},
        {"1\n", "line 1: one column"},
        {"a;b;kind\n1;2;x\n", "line 1: its cells are separated by semicolons, expected commas"},
        {"1\t2\tx\n", "line 1: its cells are separated by tabs"},
        {"\xff\xfe\x31", "it is UTF-16, expected UTF-8"},
        {"1 2 0\n", "line 1: its cells are separated by spaces"},
        {"a,b,c\n1 2 0\n", "line 2: 1 column, or cells that are separated by spaces, expected 3"},
        {"a|b|kind\n", "line 1: its cells are separated by bars"},
        {"1,5;2,5;x\n", "its cells are separated by semicolons"},
        {"a,b\n", "a header and no rows"},
        {"1,2,x\n3,,y\n", "line 2, column 2: empty, expected a number"},
        {"1,2,x\n3,four,y\n", "line 2, column 2: \"four\" is not a number"},
        {"1,2,x\n3,nan,y\n", "line 2, column 2: \"nan\" is not a number"},
        {"1,2,x\n3,inf,y\n", "is not a number"},
        {"1,2,x\n3,0x10,y\n", "is not a number"},
        {"1,2,x\n3,1e99,y\n", "is not a number"},
        {"1,2,x\n3,1 2,y\n", "is not a number"},
        {"1,2,x\n3,4\n", "line 2: 2 columns, expected 3"},
        {"1,2,x\n\n3,4,y,5\n", "line 3: 4 columns, expected 3"},
        {"1,2,x\n3,4,\n", "line 2, column 3: the label is missing"},
        {"1,2,x\n3,\"4,y\n", "line 2, column 2: a quote is not closed"},
        {"1,2,x\n3,\"4\"5,y\n", "line 2, column 2: text after the closing quote"},
        {"1,2,x\n3,4\"5,y\n", "line 2, column 2: a quote inside a cell"},
        {"1,2,x\n3,\r4,y\n", "line 2, column 2: a control character inside a cell"},
    };
    struct data_table t;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(parse(&t, cases[i].csv, &labels), ERR_CONFIG);
        assert_error_has(cases[i].texts);
    }
}

TEST(a_file_of_another_format_is_refused_with_its_format)
{
#define FILE_OF(bytes) bytes, sizeof bytes - 1
    static const struct {
        const char *bytes;
        size_t len;
        const char *is, *hint;
    } cases[] = {
        {FILE_OF("PK\3\4\24\0\0\0"), "it is packed by zip", "unzip"},
        {FILE_OF("PK\3\4\24\0\6\0\10\0\0\0!\0abcdefghijkl\23\0\0\0[Content_Types].xml"), "an Excel workbook",
         "to_csv"},
        {FILE_OF("BZh91AY&SY"), "it is packed by bzip2", "bunzip2"},
        {FILE_OF("\xfd"
                 "7zXZ\0\0"),
         "it is packed by xz", "unxz"},
        {FILE_OF("\x28\xb5\x2f\xfd\x24"), "it is packed by zstd", "unzstd"},
        {FILE_OF("PAR1\x15\4"), "a Parquet file", "to_csv"},
        {FILE_OF("\x93NUMPY\1\0"), "a NumPy array", "npy"},
        {FILE_OF("\x89HDF\r\n\x1a\n"), "an HDF5 file", "npz"},
        {FILE_OF("a\0,\0b\0\n\0"
                 "1\0,\0x\0\n\0"),
         "it is UTF-16, expected UTF-8", "iconv -f UTF-16LE"},
        {FILE_OF("\0a\0,\0b\0\n"), "it is UTF-16, expected UTF-8", "iconv -f UTF-16BE"},
        {FILE_OF("\xfe\xff\0a"), "it is UTF-16", "iconv -f UTF-16 "},
        {FILE_OF("\xff\xfe\0\0a\0\0\0"), "it is UTF-32", "iconv -f UTF-32 "},
        {FILE_OF("a,b\n1,x\n2,x\n3,x\n4,x\n5,x\n6,x\n\0"), "it is no text: byte 29 is zero", ""},
        {FILE_OF("1,2,x\r3,4,y\r"), "its lines end with CR", "tr "},
        {FILE_OF("+1 1:0.5 3:1\n-1 2:1\n"), "a file of LIBSVM", "--dataset libsvm"},
        {FILE_OF("2 qid:3 1:0.5\n"), "a file of LIBSVM", "--dataset libsvm"},
        {FILE_OF("% a comment\r\n%\n@relation x\n"), "it is an ARFF file", "arff"},
        {FILE_OF("@RELATION iris\n@attribute a numeric\n"), "an ARFF file", ""},
        {FILE_OF("sep=,\r\n1,2\r\n"), "Excel's \"sep=\"", "sed 1d"},
        {FILE_OF("\xef\xbb\xbf\nsep=;\n1;2\n"), "Excel's \"sep=\"", "sed 1d"},
        {FILE_OF("<!DOCTYPE html>\n<html>"), "an HTML page", "browser"},
        {FILE_OF("[{\"a\":1}]"), "a JSON document", "to_csv"},
        {FILE_OF("version https://git-lfs.github.com/spec/v1\n"), "Git LFS", "git lfs pull"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        const struct csv_form f = {.column = "", .header = "auto", .group = "", .drop = ""};
        struct data_table t;

        free(text);
        text = unit_copy(cases[i].bytes, cases[i].len);
        assert_int_equal(csv_parse(&t, text, cases[i].len, &f, &warnings, &e), ERR_CONFIG);
        assert_error_has(cases[i].is);
        assert_non_null(strstr(e.hint, cases[i].hint));
    }
}

TEST(columns_are_left_out_or_group_the_rows)
{
    static const float x[] = {5, 6, 7, 8}, y[] = {6, 8};
    static const char *const users[] = {"bob", "al,ice"};
    struct csv_form f = {.column = "kind", .header = "auto", .group = "user", .drop = "id+1"};
    struct data_table t;

    /* The header's first cell is empty: 1 is its number. */
    assert_ok(parse(&t, ",id,a,user,kind,b\n0,x,5,bob,c,6\n1,y,7,\"al,ice\",d,8\n", &f));
    assert_true(t.n_rows == 2 && t.n_values == 2 && t.learned_at == 2);
    assert_memory_equal(t.x, x, sizeof x);
    assert_memory_equal(t.columns, "a\0kind\0b", 9);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(t.groups[i].len, strlen(users[i]));
        assert_memory_equal(t.groups[i].at, users[i], strlen(users[i]));
    }
    assert_null(dataset_warning(&warnings, NULL));
    table_clear(&t);
    f = (struct csv_form){.column = "2", .is_target = true, .header = "no", .group = "1"};
    assert_ok(parse(&t, "7,6,5\n7,8,7\n", &f));
    assert_memory_equal(t.targets, y, sizeof y);
    table_clear(&t);
    f.group = "2";
    assert_int_equal(parse(&t, "7,6,5\n", &f), ERR_CONFIG);
    assert_error_has("column 2 is learned, and can neither be left out nor be that of the groups");
    f.group = "3";
    f.drop = "3";
    assert_int_equal(parse(&t, "7,6,5\n", &f), ERR_CONFIG);
    assert_error_has("column \"3\" is left out already");
    f.drop = "1";
    assert_int_equal(parse(&t, "7,6,5\n", &f), ERR_CONFIG);
    assert_error_has("no column of values is left");
    f.drop = "9";
    assert_int_equal(parse(&t, "7,6,5\n", &f), ERR_CONFIG);
    assert_error_has("no column is called \"9\" in line 1, of 3 columns");
    f = (struct csv_form){.column = "", .header = "auto", .group = "user"};
    assert_int_equal(parse(&t, "a,b,kind\n1,2,x\n", &f), ERR_CONFIG);
    assert_error_has("no column is called \"user\" in line 1");
    assert_int_equal(parse(&t, "a,user,kind\n1,al,x\n2,,y\n", &f), ERR_CONFIG);
    assert_error_has("line 3, column 2: the group is missing");
    assert_int_equal(parse(&t, "user,a,kind\nal,1,x\nal,z,y\n", &f), ERR_CONFIG);
    assert_error_has("line 3, column 2, \"a\": \"z\" is not a number");
}

/* A CSV text has no end mark: a truncated one is read as it is, or refused. */
TEST(a_truncated_table_never_yields_new_rows)
{
    static const char csv[] = "a,b,kind\n1,2,\"c\"\n3.5,4,\"d, e\"\n";
    struct data_table t;

    for (size_t n = 0; n < sizeof csv - 1; n++) {
        char part[sizeof csv] = "";

        memcpy(part, csv, n);
        if (parse(&t, part, &labels) < 0)
            continue;
        assert_in_range(t.n_rows, 1, 2);
        assert_true(t.n_values == 2 && t.x[0] == 1);
        table_clear(&t);
    }
}

TEST(labels_become_classes_in_numeric_or_alphabetic_order)
{
    static const struct {
        const char *csv;
        int classes[4];
    } cases[] = {
        {"1,10\n1,9\n1,100\n1,9\n", {1, 0, 2, 0}},
        {"1,b\n1,10\n1,a\n1,9\n", {3, 0, 2, 1}},
        {"1,-1\n1,1\n1,1.0\n1,0\n", {0, 2, 3, 1}},
        {"1,01\n1,1\n1,9007199254740993\n1,9007199254740992\n", {0, 1, 3, 2}},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct table_classes c;
        struct data_table t;

        assert_ok(parse(&t, cases[i].csv, &labels));
        assert_ok(table_classes_find(&c, &t, &warnings, &e));
        for (int k = 0; k < 4; k++)
            assert_int_equal(table_class_of(&c, &t.texts[k]), cases[i].classes[k]);
        free(c.texts);
        table_clear(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_rows_are_numbers_and_a_label),
        cmocka_unit_test(quoted_fields_may_contain_commas_line_ends_and_quotes),
        cmocka_unit_test(a_header_is_detected_by_its_names_or_declared),
        cmocka_unit_test(a_first_row_with_a_number_is_data_and_not_a_header),
        cmocka_unit_test(the_label_column_is_chosen_by_name_or_number),
        cmocka_unit_test(
            a_first_row_that_counts_from_0_is_a_header_and_a_name_in_it_counts_before_a_position),
        cmocka_unit_test(columns_and_rows_that_may_be_misunderstood_are_warned_of),
        cmocka_unit_test(a_file_with_hundreds_of_faults_has_twenty_warnings_and_one_with_their_number),
        cmocka_unit_test(a_column_of_text_is_named_with_what_to_do_about_it),
        cmocka_unit_test(a_number_that_is_no_place_is_the_name_of_a_column),
        cmocka_unit_test(a_missing_label_is_refused_or_its_row_left_out_or_a_class),
        cmocka_unit_test(numbers_to_regress_that_are_taken_for_labels_are_warned_of),
        cmocka_unit_test(labels_that_people_read_alike_are_classes_and_a_warning),
        cmocka_unit_test(errors_are_reported_with_line_and_column),
        cmocka_unit_test(a_file_of_another_format_is_refused_with_its_format),
        cmocka_unit_test(a_truncated_table_never_yields_new_rows),
        cmocka_unit_test(labels_become_classes_in_numeric_or_alphabetic_order),
        cmocka_unit_test(columns_are_left_out_or_group_the_rows),
    };

    return cmocka_run_group_tests(tests, NULL, drop_text);
}
