#include "submit/data/data_formats.h"

#include <sys/stat.h>
#include <zlib.h>

#include "submit/data/data_sets.h"
#include "tests/unit/unit.h"

static struct err e;

/* `n` classes, "a", "b", ...; the texts are copied. */
static int parse(struct dataset *d, const char *const *texts, int n, const struct text_form *form)
{
    static const char *const names[] = {"a", "b", "c"};
    struct text_class classes[3];
    int rc;

    for (int k = 0; k < n; k++)
        classes[k] = (struct text_class){names[k], unit_copy(texts[k], strlen(texts[k])), strlen(texts[k])};
    rc = text_parse(d, classes, n, form, &e);
    for (int k = 0; k < n; k++)
        free(classes[k].bytes);
    return rc;
}

/* All tokens of both splits, in order. */
static int count(const struct dataset *d, int32_t token)
{
    size_t length = (size_t)d->shape.dim[0];
    int n = 0;

    for (size_t i = 0; i < d->n_train * length; i++)
        n += ((int32_t *)d->train_x)[i] == token;
    for (size_t i = 0; i < d->n_test * length; i++)
        n += ((int32_t *)d->test_x)[i] == token;
    return n;
}

/* Each line occurs twice in each class, so that both splits have it whatever is drawn. */
static const char *const reviews[] = {"It's GOOD, good.\nIt's GOOD, good.\n", "bad.\n\n \nbad."};

/* Reading the rest of the text for each of its lines would take minutes. */
TEST(half_a_million_lines_that_end_with_cr_alone_are_as_many_samples)
{
    enum { N = 500000 };
    const struct text_form form = {.length = 1, .vocab = 100, .test = 0.5, .seed = 1};
    char *bytes = malloc(2 * N);
    struct text_class classes[] = {{"a", bytes, N}, {"b", bytes + N, N}};
    struct dataset d;

    assert_non_null(bytes);
    for (size_t i = 0; i < N; i++)
        memcpy(bytes + 2 * i, i < N / 2 ? "x\r" : "y\r", 2);
    assert_ok(text_parse(&d, classes, 2, &form, &e));
    assert_int_equal(d.n_train + d.n_test, N);
    dataset_clear(&d);
    free(bytes);
}

TEST(words_and_punctuation_are_tokens_by_frequency)
{
    const struct text_form form = {.length = 6, .vocab = 100, .test = 0.01, .seed = 1};
    struct dataset d;

    assert_ok(parse(&d, reviews, 2, &form));
    assert_int_equal(d.n_train + d.n_test, 4); /* empty lines are ignored */
    assert_int_equal(d.n_test, 1);
    assert_int_equal(d.vocab, 2 + 5); /* it's good , . bad */
    assert_memory_equal(d.class_names, "a\0b", 4);
    assert_int_equal(d.n_classes, 2);
    for (size_t i = 0; i < d.n_train; i++) {
        const int32_t *x = (int32_t *)d.train_x + 6 * i;

        if (d.train_y[i] == 0) /* it's good , good . and padding */
            assert_true(x[1] == x[3] && x[0] != x[1] && x[2] != x[4] && x[4] > 1 && x[5] == 0);
        else
            assert_true(x[0] > 1 && x[1] > 1 && x[2] == 0 && x[5] == 0);
    }
    dataset_clear(&d);
}

TEST(words_outside_the_vocabulary_are_unknown)
{
    const struct text_form form = {.length = 6, .vocab = 4, .test = 0.01, .seed = 1};
    struct dataset d;

    assert_ok(parse(&d, reviews, 2, &form));
    assert_int_equal(d.vocab, 4);
    assert_true(count(&d, 1) > 0 && count(&d, 2) > 0 && count(&d, 3) > 0 && count(&d, 4) == 0);
    dataset_clear(&d);
}

TEST(the_vocabulary_comes_from_the_training_lines)
{
    static const char *const texts[] = {"q w e r t y\n", "u i o p a s\n"};
    const struct text_form form = {.length = 6, .vocab = 100, .test = 0.5, .seed = 1};
    struct dataset d;

    assert_ok(parse(&d, texts, 2, &form));
    assert_int_equal(d.vocab, 8);
    for (int i = 0; i < 6; i++)
        assert_int_equal(((int32_t *)d.test_x)[i], 1);
    dataset_clear(&d);
}

TEST(long_lines_are_truncated)
{
    const struct text_form whole = {.length = 6, .vocab = 100, .test = 0.01, .seed = 1};
    const struct text_form cut = {.length = 1, .vocab = 100, .test = 0.01, .seed = 1};
    struct dataset a, b;

    assert_ok(parse(&a, reviews, 2, &whole));
    assert_ok(parse(&b, reviews, 2, &cut));
    for (size_t i = 0; i < a.n_train; i++)
        assert_int_equal(((int32_t *)a.train_x)[6 * i], ((int32_t *)b.train_x)[i]);
    dataset_clear(&a);
    dataset_clear(&b);
}

TEST(long_lines_are_dropped_with_that_option)
{
    static const char *const texts[] = {"a b c d\nb\na b c\n", "c c c c c\nd d\n"};
    struct text_form form = {.length = 3, .longer = TEXT_DROP, .vocab = 100, .test = 0.01, .seed = 1};
    struct dataset d;

    assert_ok(parse(&d, texts, 2, &form));
    assert_int_equal(d.n_train + d.n_test, 3);
    assert_int_equal(count(&d, 0), 2 + 1); /* the padding of "b" and "d d" */
    dataset_clear(&d);
    form.length = 1;
    assert_int_equal(parse(&d, texts, 2, &form), ERR_CONFIG);
    assert_error_has("class \"b\" has no lines of at most 1 token");
}

TEST(bytes_that_are_not_utf8_count_as_letters)
{
    static const char *const texts[] = {"caf\xe9 caf\xe9\n", "CAF\xe9\ncaf\n"};
    const struct text_form form = {.length = 2, .vocab = 100, .test = 0.01, .seed = 3};
    struct dataset d;

    assert_ok(parse(&d, texts, 2, &form));
    assert_in_range(d.vocab, 3, 4);
    dataset_clear(&d);
}

TEST(any_bytes_are_parsed_or_refused)
{
    static const char bytes[] = "It's a \xff\xfe test\r\nof ' 'bytes' !?\n\n\x7f\x01\nend";
    const struct text_form form = {.length = 3, .vocab = 5, .test = 0.3, .seed = 1};

    int n_texts = 0;

    for (size_t n = 0; n < sizeof bytes; n++) {
        struct text_class classes[2] = {
            {"a", unit_copy(bytes, n), n},
            {"b", unit_copy(bytes + n, sizeof bytes - 1 - n), sizeof bytes - 1 - n}};
        struct dataset d;

        if (text_parse(&d, classes, 2, &form, &e) == 0) {
            assert_true(d.vocab <= 5 && d.n_train > 0 && d.n_test > 0);
            dataset_clear(&d);
            n_texts++;
        } else {
            assert_error_has(n < 2 || strstr(e.text, "UTF-16") == NULL ? "has no lines" : "UTF-16");
        }
        free(classes[0].bytes);
        free(classes[1].bytes);
    }
    assert_true(n_texts > 30);
}

TEST(a_line_ends_with_lf_crlf_or_cr_and_a_mark_is_no_letter)
{
    static const char *const texts[][2] = {
        {"good film\ngood film\n", "bad\nbad\n"},
        {"\xef\xbb\xbfgood film\r\ngood film\r\n", "bad\rbad\r"},
        {"\xef\xbb\xbfgood film\n\xef\xbb\xbfgood film\n", "bad\nbad\n"}, /* two files, joined */
        {"good film\rgood film", "\xef\xbb\xbf"
                                 "bad\n\rbad"},
    };
    const struct text_form form = {.length = 6, .vocab = 100, .test = 0.01, .seed = 1};

    for (size_t i = 0; i < N_OF(texts); i++) {
        struct dataset d;

        assert_ok(parse(&d, texts[i], 2, &form));
        assert_int_equal(d.n_train + d.n_test, 4);
        assert_int_equal(d.vocab, 2 + 3);
        dataset_clear(&d);
    }
}

TEST(a_file_that_is_no_text_is_refused_with_its_class)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *is;
    } cases[] = {
        {"\xff\xfe"
         "a\0 \0b\0\n\0",
         10, "b: it is UTF-16, expected UTF-8"},
        {"a\0 \0b\0\n\0", 8, "b: it is UTF-16, expected UTF-8"},
        {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8, "b: it is a document of Office"},
        {"a b c d e f g h\n\0", 17, "b: it is no text: byte 17 is zero"},
    };
    const struct text_form form = {.length = 6, .vocab = 100, .test = 0.01, .seed = 1};

    for (size_t i = 0; i < N_OF(cases); i++) {
        char good[] = "good film\n", *bad = unit_copy(cases[i].bytes, cases[i].len);
        struct text_class classes[] = {{"a", good, strlen(good)}, {"b", bad, cases[i].len}};
        struct dataset d;

        assert_int_equal(text_parse(&d, classes, 2, &form, &e), ERR_CONFIG);
        assert_error_has(cases[i].is);
        free(bad);
    }
}

TEST(too_few_classes_or_a_class_without_lines_are_refused)
{
    static const char *const no_line[] = {"a b\n", "\n \n"};
    const struct text_form form = {.length = 3, .vocab = 5, .test = 0.3, .seed = 1};
    struct dataset d;

    assert_int_equal(parse(&d, reviews, 1, &form), ERR_CONFIG);
    assert_error_has("1 class, expected a file for each of two or more");
    assert_int_equal(parse(&d, no_line, 2, &form), ERR_CONFIG);
    assert_error_has("has no lines");
}

TEST(a_folder_has_a_file_for_each_class)
{
    const char *dir = unit_folder();
    char path[256];
    struct dataset d;

    assert_int_equal(dataset_open(&d, "text", "/nowhere", &e), ERR_NOT_FOUND);
    assert_non_null(strstr(e.hint, "one file per class"));
    for (int k = 0; k < 2; k++) {
        assert_ok(file_join(path, sizeof path, dir, k ? "x.neg" : "x.pos", &e));
        assert_ok(file_write(path, reviews[k], strlen(reviews[k]), 0600, &e));
    }
    assert_ok(dataset_open(&d, "text:length=7,vocab=50,test=0.25", dir, &e));
    assert_int_equal(d.shape.dim[0], 7);
    assert_int_equal(d.n_test, 1);
    assert_memory_equal(d.class_names, "x.neg\0x.pos", 12);
    dataset_clear(&d);
    assert_int_equal(dataset_open(&d, "text:lenght=7", dir, &e), ERR_CONFIG);
    assert_error_has("did you mean \"length\"?");
    assert_int_equal(dataset_open(&d, "text:length=2,long=drop", dir, &e), ERR_CONFIG);
    assert_error_has("class \"x.pos\" has no lines of at most 2 tokens");
    assert_int_equal(dataset_open(&d, "text:long=keep", dir, &e), ERR_CONFIG);
    assert_error_has("\"keep\" is not one of cut|drop");
    for (int k = 0; k < 2; k++) { /* files that Windows and macOS add are not classes */
        assert_ok(file_join(path, sizeof path, dir, k ? "Thumbs.db" : ".DS_Store", &e));
        assert_ok(file_write(path, "\xd0\xcf", 2, 0600, &e));
    }
    assert_ok(dataset_open(&d, "text:length=7", dir, &e));
    assert_int_equal(d.n_classes, 2);
    dataset_clear(&d);
    assert_ok(file_join(path, sizeof path, dir, "pos", &e));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(dataset_open(&d, "text:length=7", dir, &e), ERR_CONFIG);
    assert_error_has("/pos is a folder, expected one file for each class");
    unit_remove(dir);
}

TEST(a_compressed_file_is_the_class_that_it_is_without_compression)
{
    const char *dir = unit_folder();
    char path[256];
    struct dataset d;
    gzFile f;

    assert_ok(file_join(path, sizeof path, dir, "neg", &e));
    assert_ok(file_write(path, reviews[1], strlen(reviews[1]), 0600, &e));
    assert_ok(file_join(path, sizeof path, dir, "pos.gz", &e));
    f = gzopen(path, "wb");
    assert_int_equal(gzwrite(f, reviews[0], (unsigned)strlen(reviews[0])), strlen(reviews[0]));
    assert_int_equal(gzclose(f), Z_OK);
    assert_ok(dataset_open(&d, "text:length=7,vocab=50,test=0.25", dir, &e));
    assert_memory_equal(d.class_names, "neg\0pos", 8);
    dataset_clear(&d);
    assert_ok(file_join(path, sizeof path, dir, "pos", &e));
    assert_ok(file_write(path, reviews[0], strlen(reviews[0]), 0600, &e));
    assert_int_equal(dataset_open(&d, "text:length=7", dir, &e), ERR_CONFIG);
    assert_error_has("pos and pos.gz are one class");
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_a_million_lines_that_end_with_cr_alone_are_as_many_samples),
        cmocka_unit_test(words_and_punctuation_are_tokens_by_frequency),
        cmocka_unit_test(words_outside_the_vocabulary_are_unknown),
        cmocka_unit_test(the_vocabulary_comes_from_the_training_lines),
        cmocka_unit_test(long_lines_are_truncated),
        cmocka_unit_test(long_lines_are_dropped_with_that_option),
        cmocka_unit_test(bytes_that_are_not_utf8_count_as_letters),
        cmocka_unit_test(any_bytes_are_parsed_or_refused),
        cmocka_unit_test(a_line_ends_with_lf_crlf_or_cr_and_a_mark_is_no_letter),
        cmocka_unit_test(a_file_that_is_no_text_is_refused_with_its_class),
        cmocka_unit_test(too_few_classes_or_a_class_without_lines_are_refused),
        cmocka_unit_test(a_folder_has_a_file_for_each_class),
        cmocka_unit_test(a_compressed_file_is_the_class_that_it_is_without_compression),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
