#include "submit/stages/shard.h"

#include <unistd.h>

#include "shared/job/partition.h"
#include "shared/records/tensor_file.h"
#include "tests/unit/unit.h"

enum { N = 100, PIXELS = 6, BATCH = 4 };

static struct err e;

/* 100 samples of 2 x 3 pixels; each pixel is the sample's number. */
static void fill(struct dataset *d, uint8_t *x, int32_t *y)
{
    for (size_t i = 0; i < N; i++) {
        memset(x + i * PIXELS, (int)i, PIXELS);
        y[i] = (int32_t)(i % 10);
    }
    *d = (struct dataset){.n_train = N,
                          .n_test = 5,
                          .shape = {.n_dims = 3, .dim = {2, 3, 1}},
                          .x_type = TENSOR_U8,
                          .n_classes = 10,
                          .train_x = x,
                          .train_y = y,
                          .test_x = x,
                          .test_y = y};
}

static void open_shard(struct tensor_file *f, const struct blob *b)
{
    char path[64];

    assert_null(b->bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", b->fd);
    assert_ok(tensor_file_open(f, path, &e));
}

static void begin(struct submission *s, struct options *o, int nodes, int redundancy,
                  enum block_assignment assignment)
{
    memset(s, 0, sizeof *s);
    s->opt = o;
    settings_default(&s->settings);
    s->settings.node_count = nodes;
    s->settings.redundancy = redundancy;
    s->settings.batch_size = BATCH;
    s->settings.block_assignment = assignment;
    s->facts = json_object();
}

static void end(struct submission *s)
{
    for (int i = 0; i < s->settings.node_count; i++)
        blob_clear(&s->shards[i]);
    free(s->shards);
    blob_clear(&s->test);
    blob_clear(&s->preprocessing);
    json_decref(s->facts);
}

/* With the record that the data teaches. */
static int make_shards(struct submission *s, const struct dataset *d)
{
    struct preprocessing record;
    int rc;

    if (preprocessing_learn(&record, d, "set", s->settings.transform, &e) < 0)
        return e.code;
    shard_note_data(s, d);
    rc = shard_make(s, d, &record, &e);
    preprocessing_clear(&record);
    return rc;
}

TEST(columns_are_ranges_and_adjacent_ones_are_merged)
{
    const int blocks[] = {0, 2, 3, 7};
    char *text = shard_columns(blocks, 4, 64);

    assert_string_equal(text, "0-63,128-255,448-511");
    free(text);
    text = shard_columns(blocks, 1, 1);
    assert_string_equal(text, "0-0");
    free(text);
}

TEST(a_shard_has_the_columns_of_its_worker)
{
    static uint8_t x[N * PIXELS];
    static int32_t y[N];
    struct partition p;
    struct submission s;
    struct options o;
    struct dataset d;

    fill(&d, x, y);
    begin(&s, &o, 3, 2, BLOCKS_IID); /* blocks {0,1} {0,2} {1,2}: worker 1 holds blocks 0 and 2 */
    assert_ok(make_shards(&s, &d));
    assert_ok(partition_init(&p, &(struct partition_set){.n = N, .labels = y, .n_classes = 10},
                             &(struct partition_rule){.kind = PARTITION_IID}, 3, BATCH, s.settings.seed, &e));
    {
        struct tensor_file f;
        const struct tensor_view *images, *labels, *lengths;
        size_t at = 0;

        open_shard(&f, &s.shards[1]);
        images = tensor_file_find(&f, "x");
        labels = tensor_file_find(&f, "y");
        lengths = tensor_file_find(&f, "lengths");
        assert_int_equal(images->shape[1], PIXELS);
        assert_int_equal(lengths->shape[0], 2 * BATCH);
        assert_string_equal(tensor_file_meta(&f, "columns"), "0-3,8-11");
        assert_string_equal(tensor_file_meta(&f, "n_cols"), "12");
        for (size_t k = 0; k < 2 * BATCH; k++) {
            size_t col = k < BATCH ? k : k + BATCH;

            assert_int_equal(((const int32_t *)lengths->data)[k], p.start[col + 1] - p.start[col]);
            for (size_t i = p.start[col]; i < p.start[col + 1]; i++, at++) {
                assert_int_equal(((const uint8_t *)images->data)[at * PIXELS + PIXELS - 1], p.sample[i]);
                assert_int_equal(((const int32_t *)labels->data)[at], y[p.sample[i]]);
            }
        }
        assert_int_equal(images->shape[0], at);
        assert_int_equal(labels->shape[0], at);
        tensor_file_close(&f);
    }
    partition_clear(&p);
    end(&s);
}

TEST(holders_of_the_same_blocks_get_the_same_blob)
{
    static uint8_t x[N * PIXELS];
    static int32_t y[N];
    struct submission s;
    struct options o;
    struct dataset d;

    fill(&d, x, y);
    begin(&s, &o, 4, 2, BLOCKS_DUP);
    assert_ok(make_shards(&s, &d));
    assert_string_equal(s.shards[0].hex, s.shards[1].hex);
    assert_string_not_equal(s.shards[1].hex, s.shards[2].hex);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(s.facts, "data"), "n_blocks")), 2);
    end(&s);
}

TEST(a_shard_states_the_transforms_of_its_samples)
{
    static uint8_t x[N * PIXELS];
    static int32_t y[N];
    const struct tensor_view *scale, *shift, *augment;
    struct tensor_file f;
    struct submission s;
    struct options o;
    struct dataset d;

    fill(&d, x, y);
    begin(&s, &o, 1, 1, BLOCKS_IID);
    strcpy(s.settings.transform, "standard,crop=1,flip");
    assert_ok(make_shards(&s, &d));
    open_shard(&f, &s.shards[0]);
    scale = tensor_file_find(&f, "scale");
    shift = tensor_file_find(&f, "shift");
    augment = tensor_file_find(&f, "augment");
    assert_true(scale->shape[0] == 1 && shift->shape[0] == 1);
    /* samples are 0 .. 99: mean 49.5, deviation 28.866 */
    assert_float_equal(((const float *)scale->data)[0], 1 / 28.866f, 1e-5f);
    assert_float_equal(((const float *)shift->data)[0], -49.5f / 28.866f, 1e-4f);
    assert_memory_equal(augment->data, ((int32_t[]){2, 3, 1, 1, 1}), 5 * sizeof(int32_t));
    tensor_file_close(&f);
    end(&s);
    begin(&s, &o, 1, 1, BLOCKS_IID);
    strcpy(s.settings.transform, "unit,crop=2");
    assert_int_equal(make_shards(&s, &d), ERR_CONFIG);
    assert_error_has("transform: crop=2: images are only 2 x 3");
    json_decref(s.facts);
}

TEST(too_few_samples_are_refused)
{
    static uint8_t x[N * PIXELS];
    static int32_t y[N];
    struct submission s;
    struct options o;
    struct dataset d;

    fill(&d, x, y);
    begin(&s, &o, 30, 1, BLOCKS_IID);
    assert_true(make_shards(&s, &d) < 0);
    json_decref(s.facts);
}

TEST(a_half_for_an_evaluation_has_its_samples_in_order_and_the_scale_of_the_training_set)
{
    static uint8_t x[N * PIXELS];
    static int32_t y[N];
    struct preprocessing record;
    const char *folder = unit_folder();
    struct tensor_file f;
    struct dataset d;
    char path[128];

    fill(&d, x, y);
    snprintf(path, sizeof path, "%s/half", folder);
    assert_ok(preprocessing_learn(&record, &d, "bytes", "standard", &e));
    for (int test = 0; test < 2; test++) {
        assert_ok(shard_write_half(path, &d, &record, test ? "test" : "train", &e));
        assert_ok(tensor_file_open(&f, path, &e));
        assert_int_equal(tensor_file_find(&f, "x")->shape[0], test ? 5 : N);
        assert_memory_equal(tensor_file_find(&f, "x")->data, x, (test ? 5 : N) * PIXELS);
        assert_memory_equal(tensor_file_find(&f, "y")->data, y, (test ? 5 : N) * sizeof *y);
        assert_float_equal(*(const float *)tensor_file_find(&f, "scale")->data, 1 / 28.866f, 1e-5f);
        tensor_file_close(&f);
    }
    strcpy(record.transform, "none");
    assert_int_equal(shard_write_half(path, &d, &record, "test", &e), ERR_CONFIG);
    d.train_y = d.test_y = NULL; /* without labels */
    strcpy(record.transform, "standard");
    assert_ok(shard_write_half(path, &d, &record, "test", &e));
    assert_ok(tensor_file_open(&f, path, &e));
    assert_null(tensor_file_find(&f, "y"));
    tensor_file_close(&f);
    preprocessing_clear(&record);
    unit_remove(folder);
}

/* 30 windows of 2 tokens in pieces of 2, so that piece i begins with the tokens 4 i and 4 i + 1. */
static void fill_text(struct dataset *d, uint16_t *tokens, int32_t *topics)
{
    for (int i = 0; i < 61; i++)
        tokens[i] = (uint16_t)i;
    for (int i = 0; i < 15; i++)
        topics[i] = i % 3;
    *d = (struct dataset){.n_train = 30,
                          .n_test = 3,
                          .shape = {.n_dims = 1, .dim = {2}},
                          .x_type = TENSOR_U16,
                          .n_classes = 300,
                          .vocab = 300,
                          .train_x = tokens,
                          .test_x = tokens};
    d->stream = (struct token_stream){.n_train = 61,
                                      .n_test = 7,
                                      .time = 2,
                                      .per_piece = 2,
                                      .n_pieces = 15,
                                      .topics = topics,
                                      .n_topics = 3};
}

TEST(a_shard_of_text_has_the_pieces_of_its_columns_and_their_topics)
{
    uint16_t tokens[61];
    int32_t topics[15];
    struct submission s;
    struct options o;
    struct dataset d;
    bool seen[15] = {false};

    fill_text(&d, tokens, topics);
    begin(&s, &o, 3, 1, BLOCKS_IID);
    assert_ok(make_shards(&s, &d));
    assert_int_equal(s.settings.steps_per_epoch, 2); /* 15 pieces for 12 columns, a piece has two windows */
    for (int node = 0; node < 3; node++) {
        const struct tensor_view *t, *of, *lengths;
        struct tensor_file f;
        size_t n = 0;

        open_shard(&f, &s.shards[node]);
        t = tensor_file_find(&f, "tokens");
        of = tensor_file_find(&f, "topics");
        lengths = tensor_file_find(&f, "lengths");
        assert_null(tensor_file_find(&f, "x"));
        assert_null(tensor_file_find(&f, "y"));
        assert_int_equal(t->type, TENSOR_U16);
        assert_int_equal(t->shape[1], 5);
        assert_string_equal(tensor_file_meta(&f, "n_rows"), "2");
        for (size_t k = 0; k < BATCH; k++)
            n += (size_t)((const int32_t *)lengths->data)[k];
        assert_int_equal(n, t->shape[0]);
        for (size_t p = 0; p < n; p++) {
            const uint16_t *piece = (const uint16_t *)t->data + 5 * p;

            assert_int_equal(piece[0] % 4, 0);
            assert_false(seen[piece[0] / 4]);
            seen[piece[0] / 4] = true;
            assert_int_equal(((const int32_t *)of->data)[p], topics[piece[0] / 4]);
            for (int i = 0; i < 5; i++)
                assert_int_equal(piece[i], piece[0] + i);
        }
        tensor_file_close(&f);
    }
    {
        struct tensor_file f;

        open_shard(&f, &s.test);
        assert_int_equal(tensor_file_find(&f, "tokens")->shape[0], 1);
        assert_int_equal(tensor_file_find(&f, "tokens")->shape[1], 7);
        tensor_file_close(&f);
    }
    end(&s);
}

TEST(text_without_topics_cannot_be_divided_by_them)
{
    uint16_t tokens[61];
    int32_t topics[15];
    struct submission s;
    struct options o;
    struct dataset d;

    fill_text(&d, tokens, topics);
    d.stream.topics = NULL;
    begin(&s, &o, 1, 1, BLOCKS_IID);
    snprintf(s.settings.partition, sizeof s.settings.partition, "dirichlet:1");
    s.shards = calloc(1, sizeof *s.shards);
    assert_int_equal(make_shards(&s, &d), ERR_CONFIG);
    assert_error_has("partition dirichlet:1 divides by topics, and the text has none");
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_ranges_and_adjacent_ones_are_merged),
        cmocka_unit_test(a_shard_has_the_columns_of_its_worker),
        cmocka_unit_test(holders_of_the_same_blocks_get_the_same_blob),
        cmocka_unit_test(a_shard_states_the_transforms_of_its_samples),
        cmocka_unit_test(too_few_samples_are_refused),
        cmocka_unit_test(a_half_for_an_evaluation_has_its_samples_in_order_and_the_scale_of_the_training_set),
        cmocka_unit_test(a_shard_of_text_has_the_pieces_of_its_columns_and_their_topics),
        cmocka_unit_test(text_without_topics_cannot_be_divided_by_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
