#include "submit/data/token_file.h"

#include <sys/stat.h>

#include "submit/data/preprocessing.h"
#include "tests/unit/unit.h"

static struct err e;

static const char *dir;
static char file[128], text[128];

static void put(const char *path, const char *bytes)
{
    assert_ok(file_write(path, bytes, strlen(bytes), 0600, &e));
}

static void begin(void)
{
    dir = unit_folder();
    snprintf(file, sizeof file, "%s/file", dir);
    snprintf(text, sizeof text, "%s/text", dir);
}

static int open_text(struct dataset *d, const char *set, const char *path, size_t window)
{
    return dataset_open_as(d, set, path, &(struct data_use){.window = window, .is_uncut = window == 0}, &e);
}

/* The text of a half. */
static void decode(char *out, const struct dataset *d, const void *half, size_t n)
{
    const uint16_t *wide = half;
    const uint8_t *narrow = half;
    struct tokenizer t;

    assert_ok(tokenizer_init(&t, d->stream.merges, d->stream.n_merges, &e));
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *bytes = tokenizer_decode(&t, d->x_type == TENSOR_U16 ? wide[i] : narrow[i], &len);

        assert_true(len > 0);
        memcpy(out, bytes, len);
        out += len;
    }
    *out = '\0';
    tokenizer_clear(&t);
}

static const char tale[] =
    "the cat sat on the mat and the cat saw the rat that sat on the mat; the cat and the rat "
    "sat that day on the mat, and that was that.";

TEST(a_text_is_tokenized_by_what_its_training_half_teaches)
{
    char train[256], test[256];
    struct dataset d;

    begin();
    put(text, tale);
    assert_ok(open_text(&d, "tokens:vocab=280,test=0.3", text, 5));
    assert_int_equal(d.x_type, TENSOR_U16);
    assert_in_range(d.vocab, 262, 280);
    assert_int_equal(d.vocab, d.n_classes);
    assert_true(d.stream.bytes_per_token > 1.2);
    decode(train, &d, d.train_x, d.stream.n_train);
    decode(test, &d, d.test_x, d.stream.n_test);
    strcat(train, test); /* each ends with the token of the end, a zero byte */
    assert_string_equal(train, tale);
    dataset_clear(&d);
    unit_remove(dir);
}

TEST(a_tokenized_file_has_the_halves_of_the_text)
{
    struct dataset d, f;

    begin();
    put(text, tale);
    assert_ok(open_text(&d, "tokens:vocab=280,test=0.3", text, 0));
    assert_ok(token_file_write(file, &d, "tokens:vocab=280,test=0.3", &e));
    assert_true(token_file_is(file) && !token_file_is(text));
    assert_ok(open_text(&f, "tokens", file, 5));
    assert_int_equal(f.stream.n_train, d.stream.n_train);
    assert_memory_equal(f.train_x, d.train_x, 2 * d.stream.n_train);
    assert_memory_equal(f.test_x, d.test_x, 2 * d.stream.n_test);
    assert_int_equal(f.vocab, d.vocab);
    assert_true(f.stream.bytes_per_token == d.stream.bytes_per_token);
    assert_int_equal(f.n_test, (f.stream.n_test - 1) / 5);
    dataset_clear(&f);
    assert_int_equal(open_text(&f, "tokens:vocab=300", file, 5), ERR_CONFIG);
    assert_error_has("has tokens already, and their options");
    dataset_clear(&d);
    unit_remove(dir);
}

TEST(a_tokenized_folder_has_its_topics)
{
    char path[160];
    struct dataset d, f;

    begin();
    assert_int_equal(mkdir(text, 0700), 0);
    for (int k = 0; k < 2; k++) {
        snprintf(path, sizeof path, "%s/%s", text, k ? "tales\n" : "news");
        assert_int_equal(mkdir(path, 0700), 0);
        for (int i = 0; i < 4; i++) {
            snprintf(path, sizeof path, "%s/%s/%d", text, k ? "tales\n" : "news", i);
            put(path, k ? "once upon a time" : "today it is said");
        }
    }
    assert_ok(open_text(&d, "tokens:test=0.25", text, 0));
    assert_int_equal(d.vocab, 256);
    assert_ok(token_file_write(file, &d, "tokens", &e));
    assert_ok(open_text(&f, "tokens", file, 4));
    assert_int_equal(f.stream.n_topics, 2);
    assert_memory_equal(f.stream.topic_names, "news\0tales?", 11);
    assert_int_equal(f.stream.n_docs, 6);
    for (size_t i = 0; i < 6; i++)
        assert_true(f.stream.docs[i].start == 17 * i &&
                    f.stream.docs[i].topic == (((const char *)f.train_x)[17 * i] == 'o'));
    dataset_clear(&f);
    dataset_clear(&d);
    unit_remove(dir);
}

TEST(a_model_reads_new_text_by_its_own_tokens)
{
    struct preprocessing record;
    struct dataset d, other;
    json_t *doc;

    begin();
    put(text, tale);
    assert_ok(open_text(&d, "tokens:vocab=280,test=0.3", text, 5));
    assert_ok(preprocessing_learn(&record, &d, "tokens:vocab=280,test=0.3", "unit", &e));
    doc = preprocessing_json(&record);
    preprocessing_clear(&record);
    assert_ok(preprocessing_parse(&record, doc, &e));
    json_decref(doc);
    put(text, "a hat is that which is on a cat");
    assert_ok(dataset_open_as(&other, "tokens", text,
                              &(struct data_use){.window = 5, .known = &record, .is_whole = true}, &e));
    assert_int_equal(other.vocab, d.vocab);
    {
        char back[256];

        decode(back, &other, other.test_x, other.stream.n_test);
        assert_string_equal(back, "a hat is that which is on a cat");
    }
    dataset_clear(&other);
    assert_ok(open_text(&other, "tokens:vocab=258", text, 0));
    assert_ok(token_file_write(file, &other, "tokens:vocab=258", &e));
    dataset_clear(&other);
    assert_int_equal(
        dataset_open_as(&other, "tokens", file, &(struct data_use){.window = 5, .known = &record}, &e),
        ERR_CONFIG);
    assert_error_has("tokenized with other merges than that of the model");
    preprocessing_clear(&record);
    dataset_clear(&d);
    unit_remove(dir);
}

/* Writes a file with these tensors. */
static void write_file(const struct tensor_view *t, size_t n, const char *version, const char *bytes)
{
    const struct tensor_meta meta[] = {{"tokens", version}, {"test_bytes", bytes}, {0}};

    assert_ok(tensor_file_write(file, t, n, meta, &e));
}

TEST(a_file_that_contradicts_itself_is_refused_in_a_sentence)
{
    uint16_t tokens[] = {1, 2, 3, 256, 4, 5, 6}, merges[] = {'a', 'b'};
    int64_t starts[] = {0, 3};
    int32_t topics[] = {0, 1};
    struct tensor_view t[] = {
        {.name = "train", .type = TENSOR_U16, .n_dims = 1, .shape = {7}, .data = tokens},
        {.name = "test", .type = TENSOR_U16, .n_dims = 1, .shape = {7}, .data = tokens},
        {.name = "merges", .type = TENSOR_U16, .n_dims = 2, .shape = {1, 2}, .data = merges},
        {.name = "documents", .type = TENSOR_I64, .n_dims = 1, .shape = {2}, .data = starts},
        {.name = "document_topics", .type = TENSOR_I32, .n_dims = 1, .shape = {2}, .data = topics},
    };
    struct dataset d;

    begin();
    write_file(t, 3, "1", "8");
    assert_ok(open_text(&d, "tokens", file, 2));
    dataset_clear(&d);
    write_file(t, 3, "2", "8");
    assert_int_equal(open_text(&d, "tokens", file, 2), ERR_CONFIG);
    assert_error_has("version 2 of tokenized texts, and this version of psgd reads 1");
    write_file(t, 3, "1", "-8");
    assert_int_equal(open_text(&d, "tokens", file, 2), ERR_CONFIG);
    assert_error_has("is not the length of a text");
    write_file(t, 5, "1", "8");
    assert_int_equal(open_text(&d, "tokens", file, 2), ERR_CONFIG);
    assert_error_has("do not fit each other");
    tokens[3] = 257;
    write_file(t, 3, "1", "8");
    assert_int_equal(open_text(&d, "tokens", file, 2), ERR_CONFIG);
    assert_error_has("train: token 257 is outside the vocabulary, 0 to 256");
    merges[0] = 256;
    write_file(t, 3, "1", "8");
    assert_int_equal(open_text(&d, "tokens", file, 2), ERR_CONFIG);
    assert_error_has("merge 0 is of the tokens 256 and 98");
    write_file(t + 1, 1, "1", "8");
    assert_int_equal(open_text(&d, "tokens", file, 2), ERR_CONFIG);
    assert_error_has("no tensor train of tokens");
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_tokenized_by_what_its_training_half_teaches),
        cmocka_unit_test(a_tokenized_file_has_the_halves_of_the_text),
        cmocka_unit_test(a_tokenized_folder_has_its_topics),
        cmocka_unit_test(a_model_reads_new_text_by_its_own_tokens),
        cmocka_unit_test(a_file_that_contradicts_itself_is_refused_in_a_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
