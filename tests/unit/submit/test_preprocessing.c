#include "submit/data/preprocessing.h"

#include "shared/base/json.h"
#include "tests/unit/unit.h"

static struct err e;

/* Three rows of two values, classes "ant" and "b\xe9e", which is not UTF-8. */
static float values[] = {1, 10, 2, 20, 6, 60};
static int32_t row_labels[] = {0, 1, 1};
static char row_names[] = "ant\0b\xe9"
                          "e",
            row_columns[] = "a\0kind\0b";
static const struct dataset rows = {.n_train = 3,
                                    .shape = {.n_dims = 1, .dim = {2}},
                                    .x_type = TENSOR_F32,
                                    .train_x = values,
                                    .train_y = row_labels,
                                    .n_classes = 2,
                                    .class_names = row_names,
                                    .columns = row_columns,
                                    .learned_at = 2};

static void learn(struct preprocessing *p, const struct dataset *d, const char *transform)
{
    assert_ok(preprocessing_learn(p, d, "csv:label=kind", transform, &e));
}

static int parse(struct preprocessing *p, const char *text)
{
    json_t *doc;
    int rc;

    assert_ok(json_parse(&doc, text, strlen(text), "record", &e));
    rc = preprocessing_parse(p, doc, &e);
    json_decref(doc);
    return rc;
}

/* The record, written and read. */
static void copy(struct preprocessing *out, const struct preprocessing *p)
{
    json_t *doc = preprocessing_json(p);
    char *text = json_dump(doc, JSON_COMPACT);

    assert_ok(parse(out, text));
    free(text);
    json_decref(doc);
}

TEST(a_record_has_the_values_learned_from_the_training_half)
{
    struct preprocessing p;
    json_t *doc;
    char *text;

    learn(&p, &rows, "standard");
    doc = preprocessing_json(&p);
    text = json_dump(doc, JSON_COMPACT | JSON_REAL_PRECISION(6));
    assert_string_equal(text,
                        "{\"version\":1,\"dataset\":\"csv:label=kind\",\"type\":\"floats\",\"shape\":[2],"
                        "\"dimensions\":[\"values\"],\"columns\":[\"a\",\"kind\",\"b\"],\"learned_at\":2,"
                        "\"n_classes\":2,\"class_names\":[\"ant\",{\"bytes\":\"b\xc3\xa9"
                        "e\"}],\"n_targets\":0,\"vocab\":0,\"words\":null,\"transform\":\"standard\","
                        "\"mean\":[3.0,30.0],\"deviation\":[2.16025,21.6025]}");
    free(text);
    json_decref(doc);
    preprocessing_clear(&p);
}

TEST(a_record_has_no_path_of_a_test_file)
{
    static const struct {
        const char *dataset, *kept;
    } cases[] = {{"csv", "csv"},
                 {"csv:test_file=/a/b.csv", "csv"},
                 {"csv:label=k,test_file=/a/b.csv", "csv:label=k"},
                 {"csv:test_file=/a/b.csv,label=k", "csv:label=k"},
                 {"csv:label=k,test_file=/a/b.csv,test=0.5", "csv:label=k,test=0.5"}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct preprocessing p;

        assert_ok(preprocessing_learn(&p, &rows, cases[i].dataset, "unit", &e));
        assert_string_equal(p.dataset, cases[i].kept);
        preprocessing_clear(&p);
    }
}

TEST(a_record_that_is_written_and_read_is_the_same_to_the_last_bit)
{
    struct preprocessing p, q;
    struct transform_scale a, b;

    values[3] = 0.1f;
    learn(&p, &rows, "standard");
    copy(&q, &p);
    assert_ok(preprocessing_check_same(&p, &q, "one", "the other", &e));
    assert_ok(preprocessing_scale(&a, &p, &e));
    assert_ok(preprocessing_scale(&b, &q, &e));
    assert_int_equal(a.n, 2);
    assert_memory_equal(a.scale, b.scale, 4 * sizeof *a.scale);
    assert_int_equal(names_find(&q.classes,
                                "b\xe9"
                                "e",
                                3),
                     1);
    assert_int_equal(names_find(&q.classes, "bee", 3), -1);
    transform_scale_clear(&a);
    transform_scale_clear(&b);
    preprocessing_clear(&q);
    preprocessing_clear(&p);
}

TEST(records_that_differ_are_refused_with_the_part_that_differs)
{
    struct dataset d = rows;
    struct preprocessing p, q;

    learn(&p, &rows, "standard");
    d.columns = (char[]){"b\0kind\0a"};
    learn(&q, &d, "standard");
    assert_int_equal(preprocessing_check_same(&p, &q, "the data set", "the earlier job", &e), ERR_CONFIG);
    assert_string_equal(e.text, "the data set has other columns than the earlier job");
    preprocessing_clear(&q);
    values[0] += 1;
    learn(&q, &rows, "standard");
    values[0] -= 1;
    assert_int_equal(preprocessing_check_same(&p, &q, "the data set", "the earlier job", &e), ERR_CONFIG);
    assert_error_has("other means");
    preprocessing_clear(&q);
    preprocessing_clear(&p);
}

/* Labels of other rows, by the names of their own classes; NULL: numbers. Returns the code of
 * preprocessing_apply. */
static int apply(int32_t out[4], const struct preprocessing *p, const char *names, size_t names_len,
                 int n_classes)
{
    static float x[8];
    struct dataset d = {.n_test = 4,
                        .shape = {.n_dims = 1, .dim = {2}},
                        .x_type = TENSOR_F32,
                        .test_x = x,
                        .test_y = out,
                        .n_classes = n_classes,
                        .class_names = names ? malloc(names_len) : NULL};
    int rc;

    if (names)
        memcpy(d.class_names, names, names_len);
    rc = preprocessing_apply(p, &d, &e);
    if (rc == 0)
        assert_int_equal(d.n_classes, p->n_classes);
    if (rc == 0 && p->classes.n)
        assert_string_equal(d.class_names, p->classes.at[0]);
    free(d.class_names);
    return rc;
}

static void learn_classes(struct preprocessing *p, const char *names, int n)
{
    struct dataset d = rows;

    d.class_names = (char *)(uintptr_t)names;
    d.n_classes = n;
    learn(p, &d, "unit");
}

TEST(labels_get_the_numbers_of_the_record_by_their_names)
{
    static const char known[] = "ant\0bee\0cow", some[] = "bee\0cow\0dog";
    struct preprocessing p;
    int32_t y[] = {0, 1, 0, 1}, other[] = {0, 1, 2, 1};

    learn_classes(&p, known, 3);
    assert_ok(apply(y, &p, some, sizeof some, 3)); /* no sample is a dog */
    assert_memory_equal(y, ((int32_t[]){1, 2, 1, 2}), sizeof y);
    assert_int_equal(apply(other, &p, some, sizeof some, 3), ERR_CONFIG);
    assert_string_equal(e.text,
                        "sample 3: the label \"dog\" is none of the model's 3 classes (ant, bee, cow)");
    /* Labels without names are numbers of classes. */
    memcpy(other, (int32_t[]){2, 1, 0, 2}, sizeof other);
    assert_ok(apply(other, &p, NULL, 0, 3));
    assert_memory_equal(other, ((int32_t[]){2, 1, 0, 2}), sizeof other);
    other[1] = 3;
    assert_int_equal(apply(other, &p, NULL, 0, 4), ERR_CONFIG);
    assert_error_has("sample 2: the label \"3\"");
    preprocessing_clear(&p);
}

TEST(labels_that_are_numbers_keep_their_meaning_between_a_table_and_arrays)
{
    static const char known[] = "1\0"
                                "2\0"
                                "3",
                      some[] = "0\0"
                               "7";
    struct dataset d = rows;
    struct preprocessing p;
    int32_t y[] = {1, 2, 3, 1}, z[] = {0, 1, 1, 0};

    learn_classes(&p, known, 3); /* of a table with labels 1, 2, 3: class 0 is called 1 */
    assert_ok(apply(y, &p, NULL, 0, 4));
    assert_memory_equal(y, ((int32_t[]){0, 1, 2, 0}), sizeof y);
    preprocessing_clear(&p);
    d.class_names = NULL; /* of arrays with labels 0 to 9 */
    d.n_classes = 10;
    learn(&p, &d, "unit");
    assert_ok(apply(z, &p, some, sizeof some, 2));
    assert_memory_equal(z, ((int32_t[]){0, 7, 7, 0}), sizeof z);
    preprocessing_clear(&p);
}

TEST(samples_of_another_form_are_refused)
{
    static const struct {
        struct dataset d;
        const char *text, *hint;
    } cases[] = {
        {{.shape = {.n_dims = 1, .dim = {3}}, .x_type = TENSOR_F32},
         "takes 2 values per sample, the data set has 3",
         ""},
        {{.shape = {.n_dims = 1, .dim = {2}}, .x_type = TENSOR_U8},
         "was trained on floats, and the data set has bytes",
         "from 0 to 1: (x / 255).astype('float32')"},
        {{.shape = {.n_dims = 1, .dim = {2}}, .x_type = TENSOR_F32, .n_targets = 1, .test_t = values},
         "predicts one of 2 classes, and the data set has targets",
         ""},
    };
    struct dataset bytes = rows;
    struct preprocessing p;

    learn(&p, &rows, "unit");
    for (size_t i = 0; i < N_OF(cases); i++) {
        struct dataset d = cases[i].d;

        assert_int_equal(preprocessing_apply(&p, &d, &e), ERR_CONFIG);
        assert_error_has(cases[i].text);
        assert_non_null(strstr(e.hint, cases[i].hint));
    }
    preprocessing_clear(&p);
    bytes.x_type = TENSOR_U8;
    learn(&p, &bytes, "unit");
    assert_int_equal(
        preprocessing_apply(&p, &(struct dataset){.shape = rows.shape, .x_type = TENSOR_F32}, &e),
        ERR_CONFIG);
    assert_non_null(strstr(e.hint, "(255 * x).round().astype('uint8') of those from 0 to 1"));
    preprocessing_clear(&p);
}

#define REST(classes, more)                                                                                  \
    "\"dataset\":\"csv\",\"type\":\"floats\",\"shape\":[2],\"learned_at\":3,\"n_classes\":" classes          \
    ",\"n_targets\":0,\"vocab\":0," more

TEST(a_document_that_is_no_record_is_refused_with_its_place)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"[]", "not an object"},
        {"{}", "/version: missing"},
        {"{\"version\":2," REST("2", "\"transform\":\"unit\"}"),
         "/version: 2, and this version of psgd reads 1"},
        {"{\"version\":1," REST("2", "\"transform\":\"unit\",\"colour\":1}"), "/colour: unknown key"},
        {"{\"version\":1," REST("0", "\"transform\":\"unit\"}"), "/n_classes: 0, with 0 targets"},
        {"{\"version\":1," REST("2", "\"transform\":\"unit\",\"class_names\":[\"a\"]}"),
         "/class_names: 1 texts"},
        {"{\"version\":1," REST("2", "\"transform\":\"unit\",\"class_names\":[\"a\",\"a\"]}"), "twice"},
        {"{\"version\":1," REST("2", "\"transform\":\"unit\",\"class_names\":[\"a\",7]}"), "/class_names/1"},
        {"{\"version\":1," REST(
             "2", "\"transform\":\"unit\",\"class_names\":[\"a\",{\"bytes\":\"\xe2\x82\xac\"}]}"),
         "/class_names/1"},
        {"{\"version\":1," REST("2", "\"transform\":\"unit\",\"columns\":[\"a\",\"b\"]}"),
         "/columns: 2 texts"},
        {"{\"version\":1," REST("2", "\"transform\":\"unit\",\"words\":\"a b\"}"), "/words: 2 texts"},
        {"{\"version\":1," REST("2", "\"transform\":\"standard\",\"mean\":[1,2]}"), "/deviation"},
        {"{\"version\":1," REST("2", "\"transform\":\"standard\",\"mean\":[1,2],\"deviation\":[1,0]}"),
         "/deviation/1"},
        {"{\"version\":1," REST("2", "\"transform\":\"best\"}"), "/transform"},
    };
    struct preprocessing p;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(parse(&p, cases[i].text), ERR_CONFIG);
        assert_error_has(cases[i].error);
    }
    assert_ok(parse(
        &p, "{\"version\":1," REST("2", "\"transform\":\"standard\",\"mean\":[1,2],\"deviation\":[1,2]}")));
    preprocessing_clear(&p);
}

TEST(a_vocabulary_that_no_model_file_holds_is_refused)
{
    enum { N = 900000 };
    static int32_t tokens[] = {2, 2};
    struct dataset d = {.n_train = 2,
                        .shape = {.n_dims = 1, .dim = {1}},
                        .x_type = TENSOR_I32,
                        .train_x = tokens,
                        .train_y = row_labels,
                        .n_classes = 2,
                        .vocab = N + 2,
                        .words = malloc(8 * N)};
    struct preprocessing p, q;
    char *to = d.words;

    for (int i = 0; i < N; i++)
        to += sprintf(to, "w%06d", i) + 1;
    assert_int_equal(preprocessing_learn(&p, &d, "text", "unit", &e), ERR_CONFIG);
    assert_non_null(strstr(e.hint, "text:vocab=N"));
    d.vocab = 100000 + 2;
    assert_ok(preprocessing_learn(&p, &d, "text", "unit", &e));
    copy(&q, &p);
    assert_int_equal(q.words.n, 100000);
    assert_int_equal(names_find(&q.words, "w099999", 7), 99999);
    preprocessing_clear(&q);
    preprocessing_clear(&p);
    free(d.words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_has_the_values_learned_from_the_training_half),
        cmocka_unit_test(a_record_has_no_path_of_a_test_file),
        cmocka_unit_test(a_record_that_is_written_and_read_is_the_same_to_the_last_bit),
        cmocka_unit_test(records_that_differ_are_refused_with_the_part_that_differs),
        cmocka_unit_test(labels_get_the_numbers_of_the_record_by_their_names),
        cmocka_unit_test(labels_that_are_numbers_keep_their_meaning_between_a_table_and_arrays),
        cmocka_unit_test(samples_of_another_form_are_refused),
        cmocka_unit_test(a_document_that_is_no_record_is_refused_with_its_place),
        cmocka_unit_test(a_vocabulary_that_no_model_file_holds_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
