#include "submit/data/grammar.h"

#include <math.h>

#include "submit/data/data_sets.h"
#include "tests/unit/unit.h"

static struct err e;

TEST(the_probabilities_of_a_grammar_add_up)
{
    struct grammar g;
    double all = 0;

    assert_ok(grammar_init(&g, 5, 3, 1, &e));
    for (size_t row = 0; row < 3 * 6 * 6; row++) {
        double sum = 0;

        for (int x = 0; x < 5; x++)
            sum += g.p[row * 5 + (size_t)x];
        assert_true(fabs(sum - 1) < 1e-12);
        all += g.stationary[row];
    }
    assert_true(fabs(all - 1) < 1e-12);
    grammar_clear(&g);
}

/* What the formula says of an endless text, a text of a million letters shows: 6 standard deviations. */
TEST(the_entropy_is_the_mean_of_the_log_of_the_probabilities_in_a_long_text)
{
    enum { N = 1000000, SIDE = 17 };
    uint8_t *text = malloc(N);
    size_t number[256] = {0};
    struct grammar g;
    double sum = 0;

    assert_non_null(text);
    assert_ok(grammar_init(&g, SIDE - 1, 1, 5, &e));
    assert_ok(grammar_draw(text, N, NULL, NULL, &g, 5, 0, &e));
    for (size_t x = 0; x + 1 < SIDE; x++)
        number[(uint8_t) " etaoinshrdlucmfwypvbgkjqxz"[x]] = x + 1;
    for (size_t i = 0, a = 0, b = 0; i < N; i++) {
        size_t x = number[text[i]];
        double stays = b == 0 ? 1 : 1 - 1.0 / GRAMMAR_LENGTH;

        a = b == 0 ? 0 : a;
        sum -= x == 0 ? log(1 - stays) : log(stays * g.p[(a * SIDE + b) * (SIDE - 1) + x - 1]);
        a = b;
        b = x;
    }
    assert_true(fabs(sum / N / grammar_entropy(&g) - 1) < 0.01);
    free(text);
    grammar_clear(&g);
}

/* With one topic the two tokens before a token are all that there is to know: so the floor is the entropy,
 * but for the second token of a window, of which only one token is known. With more, topics must be
 * guessed. */
TEST(the_floor_is_the_entropy_and_what_the_begin_of_a_window_does_not_know)
{
    enum { N_WINDOWS = 4000, TIME = 50 };
    uint8_t *text = malloc(N_WINDOWS * TIME + 1);
    struct grammar one, four;
    double entropy, short_windows, long_windows;

    assert_non_null(text);
    assert_ok(grammar_init(&one, 16, 1, 1, &e));
    assert_ok(grammar_draw(text, N_WINDOWS * TIME + 1, NULL, NULL, &one, 1, 1, &e));
    entropy = grammar_entropy(&one);
    short_windows = grammar_floor(&one, text, N_WINDOWS * TIME / 2, 2);
    long_windows = grammar_floor(&one, text, N_WINDOWS, TIME);
    assert_true(long_windows > entropy * 0.98 && long_windows < entropy * 1.04);
    assert_true(short_windows > long_windows * 1.1);
    assert_ok(grammar_init(&four, 16, 4, 1, &e));
    assert_ok(grammar_draw(text, N_WINDOWS * TIME + 1, NULL, NULL, &four, 1, 1, &e));
    assert_true(grammar_floor(&four, text, N_WINDOWS, TIME) > grammar_entropy(&four) * 1.02);
    assert_true(grammar_floor(&four, text, N_WINDOWS / 10, 10 * TIME) <
                grammar_floor(&four, text, N_WINDOWS, TIME));
    free(text);
    grammar_clear(&one);
    grammar_clear(&four);
}

TEST(documents_begin_behind_the_token_that_ends_them)
{
    enum { N = 50000 };
    static uint8_t text[N];
    struct token_document *docs;
    bool seen[3] = {false};
    struct grammar g;
    size_t n;

    assert_ok(grammar_init(&g, 16, 3, 1, &e));
    assert_ok(grammar_draw(text, N, &docs, &n, &g, 1, 0, &e));
    assert_in_range(n, 20, 100);
    assert_int_equal(docs[0].start, 0);
    for (size_t k = 0; k < n; k++) {
        assert_in_range(docs[k].topic, 0, 2);
        seen[docs[k].topic] = true;
        assert_true(k == 0 || text[docs[k].start - 1] == TOKEN_END);
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    free(docs);
    grammar_clear(&g);
}

static int open_set(struct dataset *d, const char *name, size_t window)
{
    return dataset_open_as(d, name, "", &(struct data_use){.window = window}, &e);
}

TEST(the_set_is_windows_of_both_halves_and_knows_the_floor)
{
    struct dataset d;

    assert_ok(open_set(&d, "grammar:train=10001,test=1025,topics=2", 64));
    assert_int_equal(d.n_train, 156);
    assert_int_equal(d.n_test, 16);
    assert_int_equal(d.shape.dim[0], 64);
    assert_int_equal(d.vocab, 256);
    assert_int_equal(d.stream.n_topics, 2);
    assert_non_null(d.stream.topics);
    assert_true(d.stream.floor > 0.5 && d.stream.floor < 2.5);
    dataset_clear(&d);
    assert_ok(open_set(&d, "grammar", 64));
    assert_null(d.stream.topics);
    dataset_clear(&d);
    assert_int_equal(open_set(&d, "grammar:test=64", 64), ERR_CONFIG);
    assert_error_has("the test half has 64 tokens, and a window of the model has 64 and one behind it");
    assert_int_equal(open_set(&d, "grammar", 0), ERR_CONFIG);
    assert_error_has("for models with the loss token_cross_entropy");
}

/* Other bits would make other jobs of the same seed. */
TEST(a_seed_makes_the_same_text_on_every_machine)
{
    struct dataset d;

    assert_ok(open_set(&d, "grammar:train=100,test=100", 30));
    assert_memory_equal(d.train_x,
                        "shmcahh oucmsomcararahhmolcaroaiitmehl  "
                        "oomclhhroahhnfmtmuarorcrhrooiitsehloomsheotcm deutmniuaitmeo",
                        100);
    dataset_clear(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_probabilities_of_a_grammar_add_up),
        cmocka_unit_test(the_entropy_is_the_mean_of_the_log_of_the_probabilities_in_a_long_text),
        cmocka_unit_test(the_floor_is_the_entropy_and_what_the_begin_of_a_window_does_not_know),
        cmocka_unit_test(documents_begin_behind_the_token_that_ends_them),
        cmocka_unit_test(the_set_is_windows_of_both_halves_and_knows_the_floor),
        cmocka_unit_test(a_seed_makes_the_same_text_on_every_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
