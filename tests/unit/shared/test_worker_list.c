#include "shared/job/worker_list.h"

#include "shared/base/json.h"
#include "tests/unit/unit.h"

#define PIN_BASE64    "++++////aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define PIN_BASE64URL "----____aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static int parse(struct worker_list *w, const char *text, struct err *e)
{
    json_t *doc;
    int rc;

    if (json_parse(&doc, text, strlen(text), "worker.json", e) < 0)
        return e->code;
    rc = worker_list_parse(w, doc, "worker.json", e);
    json_decref(doc);
    return rc;
}

TEST(workers_are_numbered_upwards_and_servers_downwards)
{
    struct worker_list w;
    struct err e;

    assert_ok(parse(&w, "{\"PS\": [\"p:1\", \"q\"], \"Worker\": [\"a\", \"B:7\"]}", &e));
    assert_int_equal(w.n_workers, 2);
    assert_int_equal(w.n_servers, 2);
    assert_string_equal(w.nodes[0].address, "a:15387");
    assert_string_equal(w.nodes[1].address, "b:7");
    assert_int_equal(w.nodes[1].node, 1);
    assert_int_equal(w.nodes[2].node, -2);
    assert_string_equal(w.nodes[2].address, "p:1");
    assert_int_equal(w.nodes[3].node, -3);
    worker_list_clear(&w);
}

TEST(spares_come_after_the_nodes_and_may_have_settings_of_their_own)
{
    struct worker_list w;
    struct err e;

    assert_ok(parse(&w,
                    "{\"Spare\": [\"c\", \"d:2\"], \"Worker\": [\"a\"], \"PS\": \"b\","
                    " \"nodes\": {\"d:2\": {\"advertise\": \"10.0.0.4\"}}}",
                    &e));
    assert_int_equal(w.n_workers, 1);
    assert_int_equal(w.n_servers, 1);
    assert_int_equal(w.n_spares, 2);
    assert_string_equal(w.nodes[1].address, "b:15387");
    assert_string_equal(w.nodes[2].address, "c:15387");
    assert_string_equal(w.nodes[3].address, "d:2");
    assert_string_equal(w.nodes[3].advertise, "10.0.0.4");
    worker_list_clear(&w);
}

TEST(the_old_format_gives_the_same_list)
{
    struct worker_list w;
    struct err e;

    assert_ok(parse(&w, "[[\"PS\", \"p\"], [\"Worker\", \"a\"], [\"Worker\", \"b\"]]", &e));
    assert_int_equal(w.n_workers, 2);
    assert_string_equal(w.nodes[1].address, "b:15387");
    assert_int_equal(w.nodes[2].node, -2);
    assert_string_equal(w.nodes[2].address, "p:15387");
    worker_list_clear(&w);
}

TEST(a_list_of_addresses_is_a_list_of_workers)
{
    struct worker_list w;
    struct err e;

    assert_ok(parse(&w, "[\"a\", \"b:2\"]", &e));
    assert_int_equal(w.n_workers, 2);
    assert_int_equal(w.n_servers, 0);
    assert_string_equal(w.nodes[1].address, "b:2");
    worker_list_clear(&w);
    assert_int_equal(parse(&w, "[\"a\", \"a:15387\"]", &e), ERR_CONFIG);
    assert_error_has("/1: a:15387 is a duplicate of node 0");
    assert_int_equal(parse(&w, "[\"a\", [\"PS\", \"b\"]]", &e), ERR_CONFIG);
    assert_error_has("worker.json: /1: not a string with an address");
}

TEST(addresses_are_parsed_in_all_their_forms)
{
    static const struct {
        const char *text, *host;
        int port;
    } good[] = {{"localhost", "localhost", 15387},
                {"10.0.0.1:1", "10.0.0.1", 1},
                {"[::1]", "::1", 15387},
                {"[0:0:0:0:0:0:0:1]:80", "::1", 80},
                {"[FD00::00A]", "fd00::a", 15387},
                {"[FE80::1%Eth0]:9", "fe80::1%Eth0", 9},
                {"LocalHost.", "localhost", 15387},
                {"node-a.", "node-a.", 15387},
                {"[fe80::2]:65535", "fe80::2", 65535},
                {"http://a:2", "a", 2},
                {"GPU1.lab:15400", "gpu1.lab", 15400},
                {"127.0.0.1:021000", "127.0.0.1", 21000}};
    static const char *const bad[] = {"",           ":1",
                                      "a:",         "a:0",
                                      "a:65536",    "a:1x",
                                      "::1",        "[::1",
                                      "[x]",        "a b",
                                      "a/b",        "https://a",
                                      "[::1]x",     "a:-1",
                                      "a: 1",       "\xff",
                                      "[fe80::1%]", "[fe80::1%a/b]",
                                      "[%eth0]",    "[fe80::1%abcdefghijklmnopq]"};
    char host[64];
    struct err e;
    int port;

    for (size_t i = 0; i < N_OF(good); i++) {
        assert_ok(address_parse(host, sizeof host, &port, good[i].text, &e));
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
    }
    for (size_t i = 0; i < N_OF(bad); i++)
        assert_int_equal(address_parse(host, sizeof host, &port, bad[i], &e), ERR_CONFIG);
    assert_int_equal(address_parse(host, 4, &port, "toolong", &e), ERR_CONFIG);
}

TEST(an_invalid_list_is_refused_with_the_position)
{
    static const struct {
        const char *text, *expected;
    } wrong[] = {
        {"{", "worker.json:1:"},
        {"{\"Worker\": []}", "no worker"},
        {"{\"PS\": \"a\"}", "/Worker: missing"},
        {"{\"Wroker\": [\"a\"]}", "did you mean \"Worker\"?"},
        {"{\"Worker\": [1]}", "/Worker/0: not a string"},
        {"{\"Worker\": [\"a\", \"A:15387\"]}", "/Worker/1: a:15387 is a duplicate of node 0"},
        {"{\"Worker\": [\"a\"], \"PS\": \"a\"}", "/PS: a:15387 is a duplicate"},
        {"{\"Worker\": [\"a\"], \"Spare\": [\"b\", \"a\"]}", "/Spare/1: a:15387 is a duplicate of node 0"},
        {"{\"Worker\": [\"a:1 \"]}", "/Worker/0: \"a:1 \": the address contains a space"},
        {"{\"Worker\": \"a:1;b:2\"}", "/Worker: \"a:1;b:2\" is more than one address"},
        {"{\"Worker\": [\"a\\u0000x\"]}", "\\u0000 is not allowed"},
        {"{\"Worker\": [\"a\"], \"nodes\": {\"b\": {}}}",
         "/nodes/b: no Worker, PS or Spare has this address"},
        {"{\"Worker\": [\"a\"], \"nodes\": {\"a\": {\"tokenfile\": \"x\"}}}", "did you mean \"token_file\"?"},
        {"{\"Worker\": [\"a\"], \"nodes\": {\"a\": {\"advertise\": \"10.0.0.3:7\"}}}",
         "/nodes/a/advertise: \"10.0.0.3:7\": a host without a port"},
        {"{\"Worker\": [\"a\"], \"nodes\": {\"a\": {\"advertise\": \"[10.0.0.3]\"}}}", "not an IPv6 address"},
        {"{\"Worker\": [\"a\"], \"nodes\": {\"a\": {\"advertise\": \"\"}}}", "/nodes/a/advertise"},
        {"{\"Worker\": [\"a\"], \"nodes\": {\"a\": {\"fingerprint\": \"sha256//short=\"}}}",
         "/nodes/a/fingerprint: not \"sha256//\" with 43 characters"},
        {"{\"Worker\": [\"a\"], \"nodes\": {\"a\": {\"fingerprint\": \"sha512//" PIN_BASE64 "=\"}}}",
         "/nodes/a/fingerprint: not \"sha256//\" with 43 characters"},
        {"{\"Worker\": [\"a\"], \"nodes\": {\"a\": {\"fingerprint\": \"sha256//" PIN_BASE64 "A\"}}}",
         "/nodes/a/fingerprint: not \"sha256//\" with 43 characters"},
        {"{\"Worker\": [\"a\"], \"nodes\": {\"a\": {\"fingerprint\": 7}}}", "/nodes/a/fingerprint"},
        {"[[\"Work\", \"a\"]]", "/0: not [\"PS\""},
        {"[1]", "/0: not [\"PS\""},
        {"[[]]", "/0: not ["},
    };
    struct worker_list w = {0};
    struct err e;

    for (size_t i = 0; i < N_OF(wrong); i++) {
        assert_int_equal(parse(&w, wrong[i].text, &e), ERR_CONFIG);
        assert_error_has(wrong[i].expected);
        assert_null(strstr(e.text, "JSON_ALLOW")); /* a name of the library, not of ours */
        assert_null(w.nodes);
    }
}

TEST(a_node_may_have_another_address_for_its_peers)
{
    struct worker_list w;
    struct err e;

    assert_ok(parse(&w,
                    "{\"Worker\": [\"a\", \"b\", \"c\"], \"nodes\": {\"b\": {\"advertise\": \"10.0.0.3\"}, "
                    "\"c\": {\"advertise\": \"[fe80::2]\"}}}",
                    &e));
    assert_string_equal(w.nodes[0].advertise, "");
    assert_string_equal(w.nodes[1].advertise, "10.0.0.3");
    assert_string_equal(w.nodes[1].address, "b:15387");
    assert_string_equal(w.nodes[2].advertise, "fe80::2");
    worker_list_clear(&w);
}

TEST(a_fingerprint_is_a_pin_in_either_alphabet)
{
    struct worker_list w;
    struct err e;

    assert_ok(parse(&w,
                    "{\"Worker\": [\"a\", \"b\", \"c\"], \"nodes\": "
                    "{\"a\": {\"fingerprint\": \"sha256//" PIN_BASE64 "=\"}, "
                    "\"b\": {\"fingerprint\": \"sha256//" PIN_BASE64URL "=\"}}}",
                    &e));
    assert_string_equal(w.nodes[0].pin, PIN_BASE64URL);
    assert_string_equal(w.nodes[1].pin, PIN_BASE64URL);
    assert_string_equal(w.nodes[2].pin, "");
    worker_list_clear(&w);
}

TEST(a_relative_token_file_is_beside_the_list_that_names_it)
{
    const char *text = "{\"Worker\": [\"a\", \"b\"], \"nodes\": {\"a\": {\"token_file\": \"t\"}, "
                       "\"b:15387\": {\"token_file\": \"/etc/t\"}}}";
    const char *folder = unit_folder();
    char path[128], token[128];
    struct worker_list w;
    struct err e;

    snprintf(path, sizeof path, "%s/worker.json", folder);
    snprintf(token, sizeof token, "%s/t", folder);
    assert_ok(file_write(path, text, strlen(text), 0600, &e));
    assert_ok(worker_list_read(&w, path, &e));
    assert_string_equal(w.nodes[0].token_file, token);
    assert_string_equal(w.nodes[1].token_file, "/etc/t");
    worker_list_clear(&w);
    unit_remove(folder);
    assert_int_equal(worker_list_read(&w, path, &e), ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_are_numbered_upwards_and_servers_downwards),
        cmocka_unit_test(spares_come_after_the_nodes_and_may_have_settings_of_their_own),
        cmocka_unit_test(the_old_format_gives_the_same_list),
        cmocka_unit_test(a_list_of_addresses_is_a_list_of_workers),
        cmocka_unit_test(addresses_are_parsed_in_all_their_forms),
        cmocka_unit_test(an_invalid_list_is_refused_with_the_position),
        cmocka_unit_test(a_node_may_have_another_address_for_its_peers),
        cmocka_unit_test(a_fingerprint_is_a_pin_in_either_alphabet),
        cmocka_unit_test(a_relative_token_file_is_beside_the_list_that_names_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
