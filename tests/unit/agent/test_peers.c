#include "agent/jobs/peers.h"

#include "shared/base/json.h"
#include "tests/unit/unit.h"

#define HEX64 "0000000000000000000000000000000000000000000000000000000000000000"
#define PEER(node)                                                                                           \
    "{\"node\":" #node ",\"role\":\"worker\",\"address\":\"a:1\",\"host\":\"a\",\"data_port\":1"
#define KEY(hex) ",\"key\":\"" hex "\""

TEST(a_start_has_a_key_for_each_other_node_and_none_for_itself)
{
    static const struct job_spec spec = {.id = "j-abcdef", .attempt = 1, .node = 1, .node_count = 2};
    static const struct {
        const char *start, *expected; /* NULL: it is valid */
    } cases[] = {
        {"{\"attempt\":1,\"peers\":[" PEER(0) KEY(HEX64) "}," PEER(1) "}]}", NULL},
        {"{\"attempt\":1,\"peers\":[" PEER(0) "}," PEER(1) "}]}", "/peers/0/key: not 64"},
        {"{\"attempt\":1,\"peers\":[" PEER(0) KEY("00") "}," PEER(1) "}]}", "/peers/0/key: not 64"},
        {"{\"attempt\":1,\"peers\":[" PEER(0) KEY(HEX64) "}," PEER(1) KEY(HEX64) "}]}",
         "/peers/1/key: a node"},
        {"{\"attempt\":1,\"key\":\"" HEX64 "\",\"peers\":[" PEER(0) KEY(HEX64) "}," PEER(1) "}]}",
         "/key: unknown"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct start_document d;
        struct err e = {0};
        json_t *doc;

        assert_ok(json_parse(&doc, cases[i].start, strlen(cases[i].start), "start", &e));
        if (cases[i].expected) {
            assert_int_equal(start_document_parse(&d, doc, &spec, &e), ERR_CONFIG);
            assert_error_has(cases[i].expected);
        } else {
            char *nodes;

            assert_ok(start_document_parse(&d, doc, &spec, &e));
            assert_non_null(strstr(d.line, HEX64));
            nodes = json_line(d.nodes); /* as printed for users */
            assert_null(strstr(nodes, HEX64));
            free(nodes);
            start_document_clear(&d);
        }
        json_decref(doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_has_a_key_for_each_other_node_and_none_for_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
