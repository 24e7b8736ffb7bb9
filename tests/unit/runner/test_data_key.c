#include "runner/mesh/tcp/data_key.h"

#include "tests/unit/unit.h"

/* The keys of RFC 7748, section 6.1. */
#define ALICE        "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
#define ALICE_PUBLIC "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
#define BOB          "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"
#define BOB_PUBLIC   "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"

static struct data_key key_of(const char *secret, const char *published)
{
    struct data_key k;

    assert_true(hex_decode(k.secret, sizeof k.secret, secret));
    assert_true(hex_decode(k.published, sizeof k.published, published));
    return k;
}

/* The expected key was computed with Python's hmac and the formulas of RFC 7748. */
TEST(both_nodes_of_a_pair_have_the_key_of_the_protocol)
{
    const struct data_key alice = key_of(ALICE, ALICE_PUBLIC), bob = key_of(BOB, BOB_PUBLIC);
    struct data_key_job job = {.job = "j-1kq8x7m3qfab", .attempt = 1};
    uint8_t of_alice[SHA256_BYTES], of_bob[SHA256_BYTES];
    char hex[SHA256_HEX];
    struct err e = {0};

    for (size_t i = 0; i < sizeof job.secret; i++)
        job.secret[i] = (uint8_t)i;
    assert_ok(data_key_pair(of_alice, &alice, 0, bob.published, -2, &job, &e));
    assert_ok(data_key_pair(of_bob, &bob, -2, alice.published, 0, &job, &e));
    assert_memory_equal(of_alice, of_bob, sizeof of_alice);
    hex_encode(hex, of_alice, sizeof of_alice);
    assert_string_equal(hex, "bc0151379a2c88ad487068de62d4065c5f52077a827744c9fab4ee987c2269be");
}

TEST(pairs_jobs_attempts_and_secrets_have_different_keys)
{
    static const struct {
        const char *job;
        int attempt, me, peer;
        uint8_t secret;
    } cases[] = {
        {"j-abcdef", 1, 0, 1, 0},  {"j-abcdef", 1, 0, 2, 0},   {"j-abcdef", 1, 1, 2, 0},
        {"j-abcdef", 1, 0, -2, 0}, {"j-abcdef", 1, 0, 12, 0},  {"j-abcdef", 1, 1, -2, 0},
        {"j-abcdef", 2, 0, 1, 0},  {"j-abcdeg", 1, 0, 1, 0},   {"j-abcdef", 1, 0, 1, 7},
        {"j-abcdef", 10, 1, 2, 0}, {"j-abcdef", 1, 10, 12, 0},
    };
    const struct data_key alice = key_of(ALICE, ALICE_PUBLIC), bob = key_of(BOB, BOB_PUBLIC);
    uint8_t keys[N_OF(cases)][SHA256_BYTES];
    struct err e = {0};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct data_key_job job = {
            .job = cases[i].job, .attempt = cases[i].attempt, .secret = {cases[i].secret}};

        assert_ok(data_key_pair(keys[i], &alice, cases[i].me, bob.published, cases[i].peer, &job, &e));
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(keys[i], keys[k], SHA256_BYTES);
    }
}

/* It lacks the other half of a key that it publishes as its own. */
TEST(a_third_node_does_not_get_the_key_of_a_pair)
{
    const struct data_key_job job = {.job = "j-abcdef", .attempt = 1};
    uint8_t of_pair[SHA256_BYTES], of_third[SHA256_BYTES];
    struct data_key nodes[3];
    struct err e = {0};

    for (int i = 0; i < 3; i++)
        data_key_make(&nodes[i]);
    memcpy(nodes[2].published, nodes[0].published, DATA_KEY_BYTES);
    assert_ok(data_key_pair(of_pair, &nodes[0], 0, nodes[1].published, 1, &job, &e));
    assert_ok(data_key_pair(of_third, &nodes[2], 0, nodes[1].published, 1, &job, &e));
    assert_memory_not_equal(of_pair, of_third, SHA256_BYTES);
}

TEST(a_value_that_gives_each_secret_the_same_result_is_refused)
{
    const uint8_t points[2][DATA_KEY_BYTES] = {{0}, {1}};
    const struct data_key_job job = {.job = "j-abcdef", .attempt = 1};
    uint8_t key[SHA256_BYTES];
    struct data_key mine;
    struct err e = {0};

    data_key_make(&mine);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(data_key_pair(key, &mine, 0, points[i], 7, &job, &e), ERR_AUTH);
        assert_error_has("the key of node 7 in the list of peers is not valid");
    }
}

TEST(servers_come_after_workers)
{
    static const int order[] = {0, 1, 12, -2, -3, -12};

    for (int i = 0; i < (int)N_OF(order); i++)
        for (int k = 0; k < (int)N_OF(order); k++)
            assert_int_equal(node_comes_earlier(order[i], order[k]), i < k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_nodes_of_a_pair_have_the_key_of_the_protocol),
        cmocka_unit_test(pairs_jobs_attempts_and_secrets_have_different_keys),
        cmocka_unit_test(a_third_node_does_not_get_the_key_of_a_pair),
        cmocka_unit_test(a_value_that_gives_each_secret_the_same_result_is_refused),
        cmocka_unit_test(servers_come_after_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
