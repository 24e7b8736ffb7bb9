#include "agent/jobs/peers.h"

#include "shared/base/json.h"
#include "tests/unit/unit.h"

#define HEX64      "0000000000000000000000000000000000000000000000000000000000000000"
#define SECRET     "\"secret\":\"" HEX64 "\""
#define PEER(node) #node " a:1 a 1 " HEX64

TEST(a_start_has_nodes_of_its_job)
{
    static const struct job_spec spec = {
        .id = "j-abcdef", .attempt = 1, .node = 1, .node_count = 2, .server_count = 1};
    static const struct {
        const char *start, *expected; /* NULL: it is valid */
    } cases[] = {
        {"{\"attempt\":1," SECRET ",\"peers\":\"" PEER(0) ";" PEER(1) ";" PEER(-2) "\"}", NULL},
        {"{\"attempt\":1," SECRET ",\"peers\":\"" PEER(-2) "\",\"is_crowded\":true}", NULL},
        {"{\"attempt\":1," SECRET ",\"peers\":\"" PEER(2) "\"}", "/peers/0/node: 2 is not a worker"},
        {"{\"attempt\":1," SECRET ",\"peers\":\"" PEER(0) ";" PEER(-3) "\"}",
         "/peers/1/node: -3 is not a server"},
        {"{\"attempt\":1," SECRET ",\"peers\":\"x\"}", "/peers/0: not NODE"},
        {"{\"attempt\":1," SECRET ",\"peers\":[]}", "/peers: missing or not a text"},
        {"{\"attempt\":1,\"peers\":\"" PEER(0) "\"}", "/secret: missing"},
        {"{\"attempt\":1,\"secret\":\"00\",\"peers\":\"" PEER(0) "\"}", "/secret: not 64"},
        {"{\"attempt\":1,\"key\":\"" HEX64 "\"," SECRET ",\"peers\":\"" PEER(0) "\"}", "/key: unknown"},
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
            assert_ok(start_document_parse(&d, doc, &spec, &e));
            assert_non_null(strstr(d.line, HEX64));
            start_document_clear(&d);
        }
        json_decref(doc);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_has_nodes_of_its_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
