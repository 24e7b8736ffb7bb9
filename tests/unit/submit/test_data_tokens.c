#include <sys/stat.h>
#include <zlib.h>

#include "submit/data/data_sets.h"
#include "tests/unit/unit.h"

static struct err e;

static const char *dir;

static void put(const char *name, const void *bytes, size_t n)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_ok(file_write(path, bytes, n, 0600, &e));
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

static void put_folder(const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* Opens NAME in the folder, or the folder itself. */
static int open_tokens(struct dataset *d, const char *set, const char *name, size_t window)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return dataset_open_as(d, set, path, &(struct data_use){.window = window}, &e);
}

TEST(a_file_is_a_stream_whose_end_is_the_test_half)
{
    struct dataset d;

    dir = unit_folder();
    put_text("text", "0123456789abcdefghij");
    assert_ok(open_tokens(&d, "tokens:test=0.3", "text", 3));
    assert_int_equal(d.stream.n_train, 14);
    assert_int_equal(d.n_train, 4); /* windows of 3, each with the token behind it */
    assert_int_equal(d.n_test, 1);
    assert_memory_equal(d.train_x, "0123456789abcd", 14);
    assert_memory_equal(d.test_x, "efghij", 6);
    assert_null(d.train_y);
    assert_int_equal(d.n_classes, 256);
    dataset_clear(&d);
    assert_int_equal(open_tokens(&d, "tokens", "text", 3), ERR_CONFIG);
    assert_error_has("the test half has 2 tokens, and a window of the model has 3 and one behind it");
    unit_remove(dir);
}

TEST(a_packed_file_is_the_same_stream)
{
    struct dataset d;
    char path[256];
    gzFile f;

    dir = unit_folder();
    snprintf(path, sizeof path, "%s/text.gz", dir);
    f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, "0123456789abcdefghij", 20), 20);
    assert_int_equal(gzclose(f), Z_OK);
    assert_ok(open_tokens(&d, "tokens:test=0.3", "text.gz", 3));
    assert_memory_equal(d.train_x, "0123456789abcd", 14);
    dataset_clear(&d);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(open_tokens(&d, "tokens:test=0.3", "text.gz", 3), ERR_CONFIG);
    assert_error_has("cannot be unpacked");
    unit_remove(dir);
}

TEST(files_of_a_folder_are_documents_and_a_half_has_whole_ones)
{
    struct dataset d;
    char text[8];

    dir = unit_folder();
    for (int i = 0; i < 10; i++) {
        char name[8];

        snprintf(name, sizeof name, "%d", i);
        snprintf(text, sizeof text, "<doc%d>", i);
        put_text(name, text);
    }
    put_text("empty", "");
    put_text(".hidden", "hidden");
    assert_ok(open_tokens(&d, "tokens:test=0.2,seed=3", "", 4));
    assert_int_equal(d.stream.n_train, 8 * 7);
    assert_int_equal(d.stream.n_test, 2 * 7);
    for (size_t i = 0; i < 10; i++) {
        const char *at = i < 8 ? (const char *)d.train_x + 7 * i : (const char *)d.test_x + 7 * (i - 8);

        assert_memory_equal(at, "<doc", 4);
        assert_memory_equal(at + 5, ">\0", 2);
    }
    assert_string_equal(dataset_warning(&d.warnings, NULL), "1 empty document is left out");
    dataset_clear(&d);
    unit_remove(dir);
}

TEST(folders_in_the_folder_are_topics)
{
    struct dataset d;

    dir = unit_folder();
    put_folder("news");
    put_folder("news/today");
    put_folder("tales");
    put_text("news/a", "aaaaaaa");
    put_text("news/today/b", "bbbbbbb");
    put_text("tales/c", "ccccccc");
    put_text("tales/d", "ddddddd");
    put_text("other", "eeeeeee");
    assert_ok(open_tokens(&d, "tokens:test=0.2", "", 4));
    assert_int_equal(d.stream.n_topics, 3);
    assert_memory_equal(d.stream.topic_names, "news\0tales\0.", 13);
    for (size_t i = 0; i < d.stream.n_pieces; i++) {
        char first = ((const char *)d.train_x)[4 * i];

        assert_true(first == '\0' || d.stream.topics[i] == (first < 'c' ? 0 : first == 'e' ? 2 : 1));
    }
    dataset_clear(&d);
    unit_remove(dir);
}

/* 3 of 100 documents have 262,144 tokens; of the packed bytes they would be 10. */
TEST(the_limit_of_the_test_half_counts_what_packed_documents_unpack_to)
{
    enum { DOCUMENTS = 100, BYTES = 100000 };
    static char text[BYTES];
    struct dataset d;
    char path[256];
    gzFile f;

    dir = unit_folder();
    memset(text, 'a', sizeof text);
    for (int i = 0; i < DOCUMENTS; i++) {
        snprintf(path, sizeof path, "%s/%d.gz", dir, i);
        f = gzopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(gzwrite(f, text, sizeof text), sizeof text);
        assert_int_equal(gzclose(f), Z_OK);
    }
    assert_ok(open_tokens(&d, "tokens", "", 8));
    assert_int_equal(d.stream.n_test, 3 * (BYTES + 1));
    dataset_clear(&d);
    unit_remove(dir);
}

TEST(lines_that_are_the_separator_divide_a_file_into_documents)
{
    struct dataset d;

    dir = unit_folder();
    put_text("fortunes", "one\n%\ntwo\r\n%\r\n%\n% \nthree\n");
    assert_ok(open_tokens(&d, "tokens:separator=%,test=0.34,seed=2", "fortunes", 2));
    assert_int_equal(d.stream.n_train + d.stream.n_test, 5 + 6 + 10);
    assert_string_equal(dataset_warning(&d.warnings, NULL), "1 empty document is left out");
    dataset_clear(&d);
    assert_ok(open_tokens(&d, "tokens:separator=none,test=0.34", "fortunes", 2));
    assert_string_equal(dataset_warning(&d.warnings, NULL),
                        "no line \"none\" divides the file into documents");
    dataset_clear(&d);
    assert_int_equal(open_tokens(&d, "tokens:separator=%", "", 2), ERR_CONFIG);
    assert_error_has("separator is for a file");
    unit_remove(dir);
}

TEST(lines_that_are_the_separator_are_no_part_of_the_only_document)
{
    static const char *const files[] = {"%\n0123456789abcdefghi\n", "0123456789abcdefghi\n%\n",
                                        "%\r\n%\n0123456789abcdefghi\n%"};
    struct dataset d;

    dir = unit_folder();
    for (size_t i = 0; i < N_OF(files); i++) {
        put_text("one", files[i]);
        assert_ok(open_tokens(&d, "tokens:separator=%,test=0.3", "one", 3));
        assert_int_equal(d.stream.n_train, 14);
        assert_int_equal(d.stream.n_test, 6);
        assert_memory_equal(d.train_x, "0123456789abcd", 14);
        assert_memory_equal(d.test_x, "efghi\n", 6);
        dataset_clear(&d);
    }
    unit_remove(dir);
}

TEST(what_is_no_text_is_refused_in_a_sentence)
{
    struct dataset d;

    dir = unit_folder();
    put_text("a", "");
    assert_int_equal(open_tokens(&d, "tokens", "a", 2), ERR_CONFIG);
    assert_error_has("a: the file is empty");
    assert_int_equal(open_tokens(&d, "tokens", "", 2), ERR_CONFIG);
    assert_error_has("there is no text, in 1 empty document");
    put("b", "word\0more", 9);
    assert_int_equal(open_tokens(&d, "tokens", "b", 2), ERR_CONFIG);
    assert_error_has("b: it is no text: byte 5 is zero");
    put("b", "PK\3\4....", 8);
    assert_int_equal(open_tokens(&d, "tokens", "", 2), ERR_CONFIG);
    assert_error_has("b: it is packed by zip");
    assert_int_equal(open_tokens(&d, "tokens", "missing", 2), ERR_NOT_FOUND);
    unit_remove(dir);
}

TEST(a_file_that_ends_inside_a_character_is_read_with_a_warning)
{
    struct dataset d;

    dir = unit_folder();
    put_text("text", "caf\xc3\xa9 caf\xc3\xa9 caf\xc3");
    assert_ok(open_tokens(&d, "tokens:test=0.4", "text", 2));
    assert_non_null(strstr(dataset_warning(&d.warnings, NULL), "ends inside a character of UTF-8"));
    assert_int_equal(d.stream.n_train + d.stream.n_test, 16);
    dataset_clear(&d);
    put_text("text", "caf\xc3\xa9 caf\xc3\xa9 caf\xc3\xa9");
    assert_ok(open_tokens(&d, "tokens:test=0.4", "text", 2));
    assert_null(dataset_warning(&d.warnings, NULL));
    dataset_clear(&d);
    unit_remove(dir);
}

TEST(a_whole_file_is_the_test_half_if_it_is_predicted)
{
    struct dataset d;
    char path[256];

    dir = unit_folder();
    put_text("text", "0123456789");
    snprintf(path, sizeof path, "%s/text", dir);
    assert_ok(dataset_open_as(&d, "tokens", path, &(struct data_use){.window = 3, .is_whole = true}, &e));
    assert_int_equal(d.n_train, 0);
    assert_int_equal(d.n_test, 3);
    dataset_clear(&d);
    unit_remove(dir);
}

/* So that an order of all pieces needs little memory. */
TEST(a_stream_of_many_windows_is_cut_into_pieces_of_several)
{
    struct token_stream s = {.n_train = 10 * (size_t)PIECES_MAX * 8 + 1, .n_test = 100};

    assert_ok(token_stream_cut(&s, 8, &e));
    assert_int_equal(s.per_piece, 11);
    assert_true(s.n_pieces <= PIECES_MAX && s.n_pieces * s.per_piece > 10 * (size_t)PIECES_MAX - 11);
    assert_int_equal(token_stream_stride(&s), 88);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_a_stream_whose_end_is_the_test_half),
        cmocka_unit_test(a_packed_file_is_the_same_stream),
        cmocka_unit_test(files_of_a_folder_are_documents_and_a_half_has_whole_ones),
        cmocka_unit_test(folders_in_the_folder_are_topics),
        cmocka_unit_test(the_limit_of_the_test_half_counts_what_packed_documents_unpack_to),
        cmocka_unit_test(lines_that_are_the_separator_divide_a_file_into_documents),
        cmocka_unit_test(lines_that_are_the_separator_are_no_part_of_the_only_document),
        cmocka_unit_test(what_is_no_text_is_refused_in_a_sentence),
        cmocka_unit_test(a_file_that_ends_inside_a_character_is_read_with_a_warning),
        cmocka_unit_test(a_whole_file_is_the_test_half_if_it_is_predicted),
        cmocka_unit_test(a_stream_of_many_windows_is_cut_into_pieces_of_several),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
