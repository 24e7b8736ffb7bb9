#include "shared/job/peer_list.h"

#include "shared/job/settings.h"
#include "tests/unit/unit.h"

#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define LETTERS                                                                                              \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

TEST(a_list_is_read_as_it_was_printed)
{
    static const struct peer nodes[] = {
        {.node = 0, .data_port = 1, .address = "a:15387", .host = "a", .key = {1, 2}},
        {.node = NODES_MAX - 1, .data_port = 65535, .address = "[fe80::1%eth0]:9", .host = "fe80::1%eth0"},
        {.node = -2, .data_port = 40123, .address = "host.example_1-x:80", .host = "10.0.0.1", .key = {255}},
    };
    char text[N_OF(nodes) * PEER_TEXT] = "", *end = text;
    struct peer_list l;
    struct err e = {0};

    for (size_t i = 0; i < N_OF(nodes); i++) {
        end += peer_print(end, &nodes[i]);
        *end++ = i + 1 < N_OF(nodes) ? ';' : '\0';
    }
    assert_ok(peer_list_parse(&l, text, &e));
    assert_int_equal(l.n, N_OF(nodes));
    for (size_t i = 0; i < N_OF(nodes); i++) {
        assert_int_equal(l.at[i].node, nodes[i].node);
        assert_int_equal(l.at[i].data_port, nodes[i].data_port);
        assert_string_equal(l.at[i].address, nodes[i].address);
        assert_string_equal(l.at[i].host, nodes[i].host);
        assert_memory_equal(l.at[i].key, nodes[i].key, PEER_KEY_BYTES);
        assert_int_equal(peer_list_find(&l, nodes[i].node), i);
    }
    assert_int_equal(peer_list_find(&l, 5), -1);
    peer_list_clear(&l);
}

TEST(a_list_may_be_empty)
{
    struct peer_list l;
    struct err e = {0};

    assert_ok(peer_list_parse(&l, "", &e));
    assert_int_equal(l.n, 0);
    peer_list_clear(&l);
}

TEST(what_is_no_list_is_refused_with_its_entry)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"0 a:1 a 1 " KEY ";", "/peers/1: not NODE ADDRESS HOST PORT KEY"},
        {";0 a:1 a 1 " KEY, "/peers/0: not NODE"},
        {"0 a:1 a 1", "/peers/0: not NODE"},
        {"0 a:1  a 1 " KEY, "/peers/0: not NODE"},
        {"0 a:1 a 1 " KEY " x", "/peers/0: not NODE"},
        {"0 a:1 a\n 1 " KEY, "/peers/0: not NODE"},
        {"0 a/b:1 a 1 " KEY, "/peers/0: not NODE"},
        {"x a:1 a 1 " KEY, "/peers/0: \"x\" is no node's number"},
        {"- a:1 a 1 " KEY, "is no node's number"},
        {"-1 a:1 a 1 " KEY, "\"-1\" is no node's number"},
        {"4096 a:1 a 1 " KEY, "is no node's number"},
        {"9999999999999 a:1 a 1 " KEY, "is no node's number"},
        {"0 a:1 a 0 " KEY, "\"0\" is no port"},
        {"0 a:1 a 65536 " KEY, "is no port"},
        {"0 a:1 a 1 " KEY "0", "/peers/0: the key has not 64"},
        {"0 a:1 a 1 xyz", "/peers/0: the key has not 64"},
        {"0 a:1 a 1 " KEY ";0 b:1 b 1 " KEY, "/peers/1: node 0 occurs twice"},
        {"0 " LETTERS LETTERS LETTERS " a 1 " KEY, "an address of more than"},
        {"0 a:1 " LETTERS LETTERS LETTERS " 1 " KEY, "a host of more than 255"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct peer_list l;
        struct err e = {0};

        assert_int_equal(peer_list_parse(&l, cases[i].text, &e), ERR_CONFIG);
        assert_error_has(cases[i].why);
    }
}

TEST(a_list_has_no_more_nodes_than_a_job)
{
    char text[2 * NODES_MAX + 2];
    struct peer_list l;
    struct err e = {0};

    memset(text, ';', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(peer_list_parse(&l, text, &e), ERR_CONFIG);
    assert_error_has("more than 8192");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_read_as_it_was_printed),
        cmocka_unit_test(a_list_may_be_empty),
        cmocka_unit_test(what_is_no_list_is_refused_with_its_entry),
        cmocka_unit_test(a_list_has_no_more_nodes_than_a_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
