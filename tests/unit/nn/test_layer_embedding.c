#include "tests/lib/layer_check.h"

#define EMBED    "{\"kind\": \"embedding\", \"vocab\": 9, \"units\": 3}"
#define DENSE(n) "{\"kind\": \"dense\", \"units\": " #n "}"
#define TANH     "{\"kind\": \"tanh\"}"
#define COMMA    ", "

TEST(gradients_agree_with_central_differences)
{
    static const char *const nets[] = {
        EMBED,
        EMBED COMMA DENSE(4),
        EMBED COMMA TANH COMMA DENSE(4),
    };

    check_gradients("[6]", nets, N_OF(nets), 8, true);
    check_gradients("[1]", nets, N_OF(nets), 8, true);
}

TEST(each_token_becomes_its_row_including_the_padding)
{
    static const int tokens[] = {8, 1, 1, 5, 0, 0};
    struct check c;
    const float *y;

    check_open(&c, "[6]", EMBED, 1);
    check_fill(&c);
    for (int t = 0; t < 6; t++)
        c.x[t] = (float)tokens[t];
    y = net_forward(c.net, c.x, 1);
    for (int t = 0; t < 6; t++)
        assert_memory_equal(y + 3 * t, net_params(c.net) + 3 * tokens[t], 3 * sizeof *y);
    check_close(&c);
}

/* Each output has its own error, so a sum that misses one position is visible. */
TEST(a_repeated_token_gets_the_sum_of_both_gradients)
{
    struct check c;
    float dy[9];

    check_open(&c, "[3]", EMBED, 1);
    check_fill(&c);
    for (int t = 0; t < 3; t++)
        c.x[t] = (float)(t + 2);
    for (int t = 3; t < 5; t++) /* rows 2 and 4 are equal, so the outputs do not change below */
        memcpy(net_params(c.net) + 3 * t, net_params(c.net) + 6, 3 * sizeof *dy);
    check_train(&c, 1);
    memcpy(dy, net_grads(c.net) + 6, sizeof dy);
    c.x[1] = 7;
    memcpy(net_params(c.net) + 3 * 7, net_params(c.net) + 6, 3 * sizeof *dy);
    c.x[2] = 2;
    check_train(&c, 1);
    for (int k = 0; k < 3; k++) {
        assert_true(net_grads(c.net)[6 + k] == dy[k] + dy[6 + k]);
        assert_true(net_grads(c.net)[21 + k] == dy[3 + k]);
    }
    check_close(&c);
}

/* A codec may have put the rows of other nodes' tokens there. */
TEST(rows_of_absent_tokens_have_zero_gradient_whatever_was_there)
{
    struct check c;

    check_open(&c, "[3]", EMBED, 1);
    check_fill(&c);
    c.x[0] = c.x[1] = c.x[2] = 4;
    check_train(&c, 1);
    for (int i = 0; i < 27; i++)
        net_grads(c.net)[i] = 1;
    check_train(&c, 1);
    for (int i = 0; i < 27; i++)
        assert_true((net_grads(c.net)[i] != 0) == (i / 3 == 4));
    check_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_central_differences),
        cmocka_unit_test(each_token_becomes_its_row_including_the_padding),
        cmocka_unit_test(a_repeated_token_gets_the_sum_of_both_gradients),
        cmocka_unit_test(rows_of_absent_tokens_have_zero_gradient_whatever_was_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
