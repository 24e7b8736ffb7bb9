#include "submit/stages/input_shard.h"

#include "tests/unit/unit.h"

enum { NODES_MAX_HERE = 9 };

static void check_order(const size_t *starts, int n_nodes, size_t n)
{
    assert_int_equal(starts[0], 0);
    assert_int_equal(starts[n_nodes], n);
    for (int k = 0; k < n_nodes; k++)
        assert_true(starts[k] <= starts[k + 1]);
}

TEST(shards_of_text_begin_behind_line_feeds_whatever_the_lines)
{
    static const char *const texts[] = {"",
                                        "\n",
                                        "a",
                                        "a\n",
                                        "a\nb",
                                        "one line without an end that is longer than the others\nb\n",
                                        "\n\n\n\n\n\n\n\n\n\n",
                                        "1\n22\n333\n4444\n55555\n666666\n7777777\n88888888\n999999999"};
    size_t starts[NODES_MAX_HERE + 1];

    for (size_t i = 0; i < N_OF(texts); i++)
        for (int n_nodes = 1; n_nodes <= NODES_MAX_HERE; n_nodes++) {
            size_t n = strlen(texts[i]);

            input_shard_cut(starts, n_nodes, texts[i], n);
            check_order(starts, n_nodes, n);
            for (int k = 1; k < n_nodes; k++)
                assert_true(starts[k] == 0 || starts[k] == n || texts[i][starts[k] - 1] == '\n');
        }
}

TEST(lines_of_equal_length_are_divided_equally)
{
    char text[8 * 100 + 1];
    size_t starts[5];

    for (int i = 0; i < 100; i++)
        snprintf(text + (size_t)i * 8, 9, "%07d\n", i);
    input_shard_cut(starts, 4, text, 800);
    for (size_t k = 0; k <= 4; k++)
        assert_int_equal(starts[k], 200 * k);
}

TEST(bytes_that_are_no_text_are_cut_between_words)
{
    static const char bytes[1000] = "\n\n\n"; /* and zeros */
    size_t starts[NODES_MAX_HERE + 1];

    for (int n_nodes = 1; n_nodes <= NODES_MAX_HERE; n_nodes++) {
        input_shard_cut(starts, n_nodes, bytes, sizeof bytes);
        check_order(starts, n_nodes, sizeof bytes);
        for (int k = 0; k < n_nodes; k++) {
            assert_int_equal(starts[k] % 8, 0);
            assert_in_range(starts[k + 1] - starts[k], sizeof bytes / (size_t)n_nodes - 8,
                            sizeof bytes / (size_t)n_nodes + 8);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_of_text_begin_behind_line_feeds_whatever_the_lines),
        cmocka_unit_test(lines_of_equal_length_are_divided_equally),
        cmocka_unit_test(bytes_that_are_no_text_are_cut_between_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
