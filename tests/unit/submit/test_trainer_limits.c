#include "submit/trainer/trainer_limits.h"

#include "tests/unit/unit.h"

static struct err e;
static struct options o;

static int check(const struct codec_facts *f, enum trainer_update who, const char *const *arguments)
{
    static struct unit_argv argv; /* operands point into it */

    unit_argv(&argv, "submit", arguments);
    assert_ok(options_parse(&o, FOR_SUBMIT, argv.n, argv.of, &e));
    return trainer_limits_check(&o, f, who, &e);
}

#define CHECK_OF(who, f, ...)                                                                                \
    check(f, who, (const char *const[]){"--trainer", "dir/train.py", __VA_ARGS__, NULL})
#define CHECK(f, ...) CHECK_OF(TRAINER_UPDATES, f, __VA_ARGS__)

TEST(options_of_the_exchange_and_the_records_are_accepted)
{
    const struct codec_facts fedavg = {.name = "fedavg"};

    assert_ok(CHECK(&fedavg, "--codec", "fedavg", "--local-steps", "5", "--node_count", "2", "--compress",
                    "fp16", "--participate", "0.5", "--aggregate", "median", "--eval-every", "3",
                    "--patience", "2", "--partition", "dirichlet:0.1", "--seed", "7"));
    assert_ok(CHECK(&fedavg, "--codec", "fedavg", "--placement", "range"));
}

TEST(options_of_what_the_program_has_itself_are_refused)
{
    static const char *const refused[][2] = {
        {"--model", "lenet"},      {"--dataset", "mnist"},         {"--data", "/tmp"},
        {"--transform", "centre"}, {"--batch_size", "32"},         {"--gradient-descent", "adam"},
        {"--optimizer", "adam"},   {"--learn_rate", "0.5"},        {"--schedule", "cosine"},
        {"--warmup-steps", "5"},   {"--weight-decay", "1"},        {"--clip-norm", "1"},
        {"--redundancy", "2"},     {"--block_assignment", "dup"},  {"--block-ratio", "2,1"},
        {"--feed", "shared"},      {"--momentum", "0.9"},          {"--math", "openblas"},
        {"--threads", "2"},        {"--placement", "round_robin"}, {"--beta1", "0.8"},
        {"--beta2", "0.8"},        {"--epsilon", "0.1"},           {"--decay-of", "matrices"},
        {"--accumulate", "2"},     {"--max-tokens", "100"},        {"--adamw-rate", "0.1"},
    };

    for (size_t i = 0; i < N_OF(refused); i++) {
        assert_int_equal(CHECK(NULL, refused[i][0], refused[i][1]), ERR_CONFIG);
        assert_error_has("has no effect with --trainer: train.py");
        assert_true(e.hint[0]);
    }
    assert_int_equal(CHECK(NULL, "--model", "lenet"), ERR_CONFIG);
    assert_string_equal(e.text, "--model has no effect with --trainer: train.py is the model");
}

TEST(a_partition_by_a_column_and_a_list_for_layers_are_refused)
{
    assert_int_equal(CHECK(NULL, "--partition", "column:user"), ERR_CONFIG);
    assert_error_has("names a column");
    assert_int_equal(CHECK(NULL, "--codec", "{\"0\": \"ps\"}"), ERR_CONFIG);
    assert_error_has("a list is for the layers");
}

TEST(rules_that_need_psgds_own_optimizer_or_gradient_are_refused)
{
    const struct codec_facts ps = {.name = "ps", .updates_on_server = true};
    const struct codec_facts ndc = {.name = "ndc", .uses_blocks = true};

    assert_int_equal(CHECK(&ps, "--codec", "ps"), ERR_CONFIG);
    assert_error_has("codec ps updates the parameters on servers");
    assert_true(strstr(e.hint, "--codec allreduce"));
    assert_int_equal(CHECK(&ndc, "--codec", "ndc"), ERR_CONFIG);
    assert_error_has("equal to the bit");
}

TEST(a_function_of_gradients_has_psgds_optimizer_and_any_rule)
{
    const struct codec_facts ps = {.name = "ps", .updates_on_server = true};

    assert_ok(CHECK_OF(TRAINER_MAY_UPDATE, &ps, "--codec", "ps", "--learn_rate", "0.5", "--batch_size", "8"));
    assert_int_equal(CHECK_OF(TRAINER_MAY_UPDATE, &ps, "--model", "lenet"), ERR_CONFIG);
}

TEST(a_function_that_trains_gives_no_gradients_to_combine)
{
    const struct codec_facts allreduce = {.name = "allreduce", .sends_grads = true};
    const struct codec_facts fedavg = {.name = "fedavg"};

    assert_ok(CHECK_OF(TRAINER_TRAINS, &fedavg, "--codec", "fedavg"));
    assert_int_equal(CHECK_OF(TRAINER_TRAINS, &allreduce, "--codec", "allreduce"), ERR_CONFIG);
    assert_error_has("combines or changes gradients");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_the_exchange_and_the_records_are_accepted),
        cmocka_unit_test(options_of_what_the_program_has_itself_are_refused),
        cmocka_unit_test(a_partition_by_a_column_and_a_list_for_layers_are_refused),
        cmocka_unit_test(rules_that_need_psgds_own_optimizer_or_gradient_are_refused),
        cmocka_unit_test(a_function_of_gradients_has_psgds_optimizer_and_any_rule),
        cmocka_unit_test(a_function_that_trains_gives_no_gradients_to_combine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
