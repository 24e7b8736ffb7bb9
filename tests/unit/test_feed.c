#include "agent/runner/feed.h"

#include "shared/partition.h"
#include "tests/unit/unit.h"

enum { WIDTH = 3, BATCH = 4, NODES = 3, SAMPLES = 50, SEED = 9 };

/* A data set in which sample s is the bytes s, s, s and the label s % 10. */
static void write_share(const char *path, const struct partition *p, const struct blocks *b, int node)
{
    int own[16];
    int n_own = blocks_of(b, node, own);
    size_t n_cols = (size_t)n_own * BATCH;
    uint8_t *images = malloc(p->n_rows * n_cols * WIDTH);
    int32_t *labels = malloc(p->n_rows * n_cols * sizeof *labels);
    struct tensor_view t[2] = {
        {.name = "x", .type = TENSOR_U8, .n_dims = 3, .shape = {p->n_rows, n_cols, WIDTH}, .data = images},
        {.name = "y", .type = TENSOR_I32, .n_dims = 2, .shape = {p->n_rows, n_cols}, .data = labels},
    };
    struct err e = {0};

    for (size_t row = 0; row < p->n_rows; row++)
        for (size_t c = 0; c < n_cols; c++) {
            size_t col = (size_t)own[c / BATCH] * BATCH + c % BATCH;
            uint32_t s = p->sample[row * p->n_cols + col];

            memset(images + (row * n_cols + c) * WIDTH, (int)s, WIDTH);
            labels[row * n_cols + c] = (int32_t)(s % 10);
        }
    assert_ok(tensor_file_write(path, t, 2, NULL, &e));
    free(images);
    free(labels);
}

static void write_test_set(const char *path, size_t n, int label)
{
    uint8_t bytes[WIDTH * SAMPLES] = {0};
    int32_t labels[SAMPLES];
    struct tensor_view t[2] = {
        {.name = "x", .type = TENSOR_U8, .n_dims = 2, .shape = {n, WIDTH}, .data = bytes},
        {.name = "y", .type = TENSOR_I32, .n_dims = 1, .shape = {n}, .data = labels},
    };
    struct err e = {0};

    for (int i = 0; i < SAMPLES; i++)
        labels[i] = label;
    assert_ok(tensor_file_write(path, t, 2, NULL, &e));
}

/* All that a feed asks of a model. */
static struct model_spec *model(int n_in, int n_out)
{
    struct model_spec *m = calloc(1, sizeof *m);

    assert_non_null(m);
    m->n_in = n_in;
    m->n_out = n_out;
    return m;
}

static const char *folder;
static char train[64], test[64];

static int make(void **state)
{
    (void)state;
    folder = unit_folder();
    snprintf(train, sizeof train, "%s/train", folder);
    snprintf(test, sizeof test, "%s/test", folder);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    unit_remove(folder);
    return 0;
}

static void partition_of(struct partition *p, struct blocks *b, int redundancy)
{
    int32_t labels[SAMPLES];
    struct err e = {0};

    for (int s = 0; s < SAMPLES; s++)
        labels[s] = s % 10;
    assert_ok(blocks_init(b, "iid", NODES, redundancy, &e));
    assert_ok(partition_init(p, &(struct partition_set){.n = SAMPLES, .labels = labels, .n_classes = 10},
                             &(struct partition_rule){PARTITION_IID, 0}, (size_t)b->n_blocks, BATCH, SEED,
                             &e));
}

TEST(every_epoch_shows_each_sample_of_a_share_once)
{
    struct partition p;
    struct blocks b;
    struct feed f;
    struct err e = {0};
    struct feed_batch batch;
    struct model_spec *m = model(WIDTH, 10);

    partition_of(&p, &b, 2);
    write_share(train, &p, &b, 1);
    write_test_set(test, 5, 3);
    assert_ok(feed_open(&f, train, test, &b, 1, BATCH, m, SEED, &e));
    assert_ok(feed_batch_init(&batch, &f, BATCH, &e));
    assert_int_equal(f.n_rows, p.n_rows);
    assert_int_equal(f.n_blocks, 2);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        int seen[256] = {0};

        feed_epoch(&f, epoch);
        for (size_t row = 0; row < f.n_rows; row++)
            for (int k = 0; k < f.n_blocks; k++) {
                feed_block(&f, row, k, &batch);
                for (int j = 0; j < BATCH; j++) {
                    int s = (int)(batch.x[j * WIDTH] * 255.0f + 0.5f);

                    assert_int_equal(batch.labels[j], s % 10);
                    seen[s]++;
                }
            }
        for (size_t i = 0; i < p.n_rows * p.n_cols; i++) {
            size_t block = i % p.n_cols / BATCH;

            assert_int_equal(seen[p.sample[i]], blocks_holds(&b, (int)block, 1));
        }
    }
    feed_batch_clear(&batch);
    feed_close(&f);
    free(m);
    partition_clear(&p);
    blocks_clear(&b);
}

TEST(a_file_that_is_not_this_node_s_share_is_refused)
{
    struct partition p;
    struct blocks b;
    struct feed f;
    struct model_spec *m = model(WIDTH, 10), *wide = model(WIDTH + 1, 10), *few = model(WIDTH, 9);
    struct err e = {0};

    partition_of(&p, &b, 1);
    write_share(train, &p, &b, 1);
    write_test_set(test, 5, 3);
    assert_int_equal(feed_open(&f, train, test, &b, 1, BATCH + 1, m, SEED, &e), ERR_CONFIG);
    assert_says("share of node 1");
    assert_int_equal(feed_open(&f, train, test, &b, 1, BATCH, wide, SEED, &e), ERR_CONFIG);
    assert_says("the model takes 4");
    assert_int_equal(feed_open(&f, train, test, &b, 1, BATCH, few, SEED, &e), ERR_CONFIG);
    assert_says("the model knows 0 to 8");
    free(m);
    free(wide);
    free(few);
    partition_clear(&p);
    blocks_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_epoch_shows_each_sample_of_a_share_once, make, clean),
        cmocka_unit_test_setup_teardown(a_file_that_is_not_this_node_s_share_is_refused, make, clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
