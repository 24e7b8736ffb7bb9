#include "runner/token_windows.h"

#include "runner/loader.h"
#include "tests/unit/unit.h"

enum { TIME = 4, VOCAB = 300, BATCH = 2, SEED = 9 };

static struct err e;

static struct model_spec *language_model(void)
{
    struct model_spec *m = calloc(1, sizeof *m);

    assert_non_null(m);
    m->n_in = TIME;
    m->n_out = TIME * VOCAB;
    m->loss = LOSS_TOKEN_CROSS_ENTROPY;
    m->n_layers = 1;
    m->layers[0].kind = LAYER_EMBEDDING;
    m->layers[0].out = (struct shape){.n_dims = 2, .dim = {TIME, VOCAB}};
    m->layers[0].embedding.vocab = VOCAB;
    return m;
}

TEST(a_window_is_an_input_and_the_token_behind_each_of_its_tokens)
{
    uint16_t tokens[2][3 * TIME + 1];
    const struct tensor_view t = {
        .name = "tokens", .type = TENSOR_U16, .n_dims = 2, .shape = {2, 3 * TIME + 1}, .data = tokens};
    struct token_windows w;
    float x[TIME];
    int32_t labels[TIME];

    for (int i = 0; i < 2 * (3 * TIME + 1); i++)
        tokens[0][i] = (uint16_t)(200 + i);
    assert_ok(token_windows_open(&w, &t, TIME, VOCAB, &e));
    assert_int_equal(w.n, 6);
    token_windows_take(&w, 2, x, labels); /* the last window of the first piece */
    for (int i = 0; i < TIME; i++) {
        assert_true(x[i] == 200 + 2 * TIME + (float)i);
        assert_int_equal(labels[i], 200 + 2 * TIME + i + 1);
    }
    token_windows_take(&w, 3, x, labels); /* the first one of the second piece */
    assert_true(x[0] == 200 + 3 * TIME + 1);
    assert_int_equal(labels[TIME - 1], 200 + 3 * TIME + 1 + TIME);
}

TEST(tokens_of_another_form_or_beyond_the_vocabulary_are_refused)
{
    uint16_t wide[TIME + 1] = {0, 1, 2, 3, VOCAB};
    uint8_t narrow[TIME + 1] = {0, 1, 255, 3, 4};
    struct tensor_view t = {
        .name = "tokens", .type = TENSOR_U16, .n_dims = 2, .shape = {1, TIME + 1}, .data = wide};
    struct token_windows w;

    assert_int_equal(token_windows_open(&w, &t, TIME, VOCAB, &e), ERR_CONFIG);
    assert_error_has("token 300 is outside the model's vocabulary, 0 to 299");
    assert_int_equal(token_windows_open(&w, &t, TIME - 1, VOCAB, &e), ERR_CONFIG);
    assert_error_has("not of windows of 3 tokens");
    t.type = TENSOR_U8;
    t.data = narrow;
    assert_ok(token_windows_open(&w, &t, TIME, 256, &e));
    assert_int_equal(token_windows_open(&w, &t, TIME, 255, &e), ERR_CONFIG);
    assert_error_has("token 255 is outside the model's vocabulary, 0 to 254");
    t.type = TENSOR_F32;
    assert_int_equal(token_windows_open(&w, &t, TIME, VOCAB, &e), ERR_CONFIG);
    t.type = TENSOR_U8;
    t.shape[0] = 0;
    assert_int_equal(token_windows_open(&w, &t, TIME, VOCAB, &e), ERR_CONFIG);
}

TEST(in_place_a_node_reads_its_own_pieces_of_the_whole_set)
{
    enum { PIECES = 4, N = PIECES * 2 * TIME + 3 }; /* the last two tokens are in no window */
    uint16_t tokens[N];
    int32_t own[] = {3, 1};
    struct tensor_view train = {
        .name = "train", .type = TENSOR_U16, .n_dims = 1, .shape = {N}, .data = tokens};
    struct tensor_view pieces = {
        .name = "pieces", .type = TENSOR_I32, .n_dims = 1, .shape = {2}, .data = own};
    struct token_windows w;
    float x[TIME];
    int32_t labels[TIME];

    for (int i = 0; i < N; i++)
        tokens[i] = (uint16_t)(200 + i);
    assert_ok(token_windows_open_place(&w, &train, &pieces, 2, TIME, VOCAB, &e));
    assert_int_equal(w.n, 4);
    for (size_t at = 0; at < 4; at++) {
        int first = 200 + (own[at / 2] * 2 + (int)at % 2) * TIME;

        token_windows_take(&w, at, x, labels);
        assert_true(x[0] == (float)first && x[TIME - 1] == (float)(first + TIME - 1));
        assert_int_equal(labels[TIME - 1], first + TIME);
    }
    tokens[0] = VOCAB; /* of piece 0, another node's */
    assert_ok(token_windows_open_place(&w, &train, &pieces, 2, TIME, VOCAB, &e));
    tokens[4 * TIME] = VOCAB; /* the last label of piece 1 */
    assert_int_equal(token_windows_open_place(&w, &train, &pieces, 2, TIME, VOCAB, &e), ERR_CONFIG);
    assert_error_has("token 300 is outside the model's vocabulary, 0 to 299");
    for (int wrong = -1; wrong <= PIECES; wrong += PIECES + 1) {
        own[1] = wrong;
        assert_int_equal(token_windows_open_place(&w, &train, &pieces, 2, TIME, VOCAB, &e), ERR_CONFIG);
        assert_error_has("of the data set, which has 4");
    }
    own[1] = 0;
    assert_int_equal(token_windows_open_place(&w, &train, &pieces, 0, TIME, VOCAB, &e), ERR_CONFIG);
    assert_int_equal(token_windows_open_place(&w, &train, &pieces, SIZE_MAX / 2, TIME, VOCAB, &e),
                     ERR_CONFIG);
    train.n_dims = 2;
    assert_int_equal(token_windows_open_place(&w, &train, &pieces, 2, TIME, VOCAB, &e), ERR_CONFIG);
}

/* More than the number of bytes from which on pages are released. */
TEST(tokens_of_a_large_shard_are_read_while_its_pages_are_released)
{
    enum { N = 65 << 20 };
    const char *dir = unit_folder();
    uint8_t *bytes = malloc(N + 1);
    const struct tensor_view t = {
        .name = "tokens", .type = TENSOR_U8, .n_dims = 2, .shape = {1, N + 1}, .data = bytes};
    struct token_windows w;
    struct tensor_file f;
    char path[128];

    assert_non_null(bytes);
    for (size_t i = 0; i <= N; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 24) % 200;
    snprintf(path, sizeof path, "%s/tokens", dir);
    assert_ok(tensor_file_write_unsynced(path, &t, 1, NULL, &e));
    assert_ok(tensor_file_open(&f, path, &e));
    assert_ok(token_windows_open(&w, tensor_file_find(&f, "tokens"), TIME, 200, &e));
    assert_true(w.is_large);
    for (size_t at = 0; at < w.n; at += 4099) {
        float x[TIME];
        int32_t labels[TIME];

        token_windows_take(&w, at, x, labels);
        for (size_t i = 0; i < TIME; i++)
            assert_true(x[i] == bytes[at * TIME + i] && labels[i] == bytes[at * TIME + i + 1]);
    }
    tensor_file_close(&f);
    free(bytes);
    unit_remove(dir);
}

/* Two columns, of 3 and 2 pieces of two windows; window w of the shard begins with token 10 w. */
static void write_files(const char *train, const char *test)
{
    static const int32_t lengths[] = {3, 2};
    uint16_t tokens[5][2 * TIME + 1], last[2 * TIME + 1];
    struct tensor_view t[] = {
        {.name = "tokens", .type = TENSOR_U16, .n_dims = 2, .shape = {5, 2 * TIME + 1}, .data = tokens},
        {.name = "lengths", .type = TENSOR_I32, .n_dims = 1, .shape = {2}, .data = lengths},
    };

    for (int p = 0; p < 5; p++)
        for (int i = 0; i <= 2 * TIME; i++)
            tokens[p][i] = (uint16_t)((2 * p + i / TIME) * 10 + i % TIME);
    for (int i = 0; i <= 2 * TIME; i++)
        last[i] = (uint16_t)(100 + i);
    assert_ok(tensor_file_write(train, t, 2, NULL, &e));
    t[0].shape[0] = 1;
    t[0].data = last;
    assert_ok(tensor_file_write(test, t, 1, NULL, &e));
}

TEST(an_epoch_has_other_windows_of_each_column_in_each_step)
{
    const char *dir = unit_folder();
    struct model_spec *m = language_model();
    char train[128], test[128];
    struct loader_batch batch;
    int n_moved = 0, before[4][BATCH] = {{0}};
    struct blocks b;
    struct loader l;

    snprintf(train, sizeof train, "%s/train", dir);
    snprintf(test, sizeof test, "%s/test", dir);
    write_files(train, test);
    assert_ok(blocks_init(&b, BLOCKS_IID, 1, 1, &e));
    assert_int_equal(loader_open(&l, train, test, &b, 0, BATCH, 5, m, SEED, &e), ERR_CONFIG);
    assert_error_has("column 1 has 4 samples, an epoch has 5 steps");
    assert_ok(loader_open(&l, train, test, &b, 0, BATCH, 4, m, SEED, &e));
    assert_ok(loader_batch_init(&batch, &l, BATCH, &e));
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        bool seen[10] = {false};

        loader_epoch(&l, epoch);
        for (size_t row = 0; row < 4; row++) {
            loader_block(&l, row, 0, &batch);
            for (int j = 0; j < BATCH; j++) {
                int w = (int)batch.x[j * TIME] / 10;

                assert_true(j == 0 ? w < 6 : w >= 6 && w < 10);
                assert_false(seen[w]);
                seen[w] = true;
                for (int i = 0; i < TIME; i++) {
                    assert_true(batch.x[j * TIME + i] == (float)(10 * w + i));
                    assert_int_equal(batch.labels[j * TIME + i], i + 1 < TIME ? 10 * w + i + 1 : 10 * w + 10);
                }
                n_moved += before[row][j] != w;
                before[row][j] = w;
            }
        }
    }
    assert_true(n_moved > 8);
    assert_int_equal(l.n_test, 2);
    loader_test(&l, 0, 2, &batch);
    assert_true(batch.x[0] == 100 && batch.x[TIME] == 104);
    assert_int_equal(batch.labels[2 * TIME - 1], 108);
    loader_batch_clear(&batch);
    loader_close(&l);
    m->loss = LOSS_SOFTMAX_CROSS_ENTROPY;
    assert_int_equal(loader_open(&l, train, test, &b, 0, BATCH, 4, m, SEED, &e), ERR_CONFIG);
    assert_error_has("the samples are windows of tokens, and the model's loss is softmax_cross_entropy");
    blocks_clear(&b);
    free(m);
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_an_input_and_the_token_behind_each_of_its_tokens),
        cmocka_unit_test(tokens_of_another_form_or_beyond_the_vocabulary_are_refused),
        cmocka_unit_test(in_place_a_node_reads_its_own_pieces_of_the_whole_set),
        cmocka_unit_test(tokens_of_a_large_shard_are_read_while_its_pages_are_released),
        cmocka_unit_test(an_epoch_has_other_windows_of_each_column_in_each_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
