#include "submit/results/collect.h"

#include "tests/unit/unit.h"

#define EVAL                                                                                                 \
    "time_s,node,epoch,step,samples,loss,accuracy,sent_bytes_total,recv_bytes_total,tokens,perplexity,"      \
    "bits_per_byte\n"

static struct err e;

/* What collect_rows makes of one node's text; the caller frees. */
static char *append(const char *text, size_t *bad, int *rc)
{
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);

    assert_non_null(f);
    *rc = collect_rows(f, &artifacts[ARTIFACT_EVAL], 0, text, strlen(text), bad, &e);
    fclose(f);
    return out;
}

TEST(whole_rows_are_kept_and_partial_ones_are_not)
{
    size_t bad;
    int rc;
    char *out = append(EVAL "1,0,1,2,3,0.5,0.25,7,8,0,,\n2,0,2,4,6,nan,,7,8,0,,\n3,0,3", &bad, &rc);

    assert_int_equal(rc, 0);
    assert_int_equal(bad, 0);
    assert_string_equal(out, "1,0,1,2,3,0.5,0.25,7,8,0,,\n2,0,2,4,6,nan,,7,8,0,,\n");
    free(out);
}

TEST(rows_of_an_earlier_attempt_count_up_to_a_step_and_a_round)
{
    static const char text[] = EVAL "1,0,1,2,3,0.5,0.25,7,8,0,,\n2,1,1,2,3,0.5,0.25,7,8,0,,\n"
                                    "3,0,2,40,6,0.5,0.25,7,8,0,,\n4,0,3,41,9,0.5,0.25,7,8,0,,\n5,0,3,4";
    static const char comm[] =
        "time_s,round,node,peer,direction,messages,raw_bytes,wire_bytes,encode_s,transfer_s\n"
        "1,9,0,1,sent,1,2,3,4,5\n2,10,0,1,sent,1,2,3,4,5\n";
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);

    assert_non_null(f);
    assert_ok(collect_rows_until(f, &artifacts[ARTIFACT_EVAL], text, strlen(text), 40, 1, &e));
    assert_ok(collect_rows_until(f, &artifacts[ARTIFACT_COMM], comm, strlen(comm), 1, 9, &e));
    assert_int_equal(collect_rows_until(f, &artifacts[ARTIFACT_EVAL], comm, strlen(comm), 1, 9, &e),
                     ERR_PROTOCOL);
    fclose(f);
    assert_string_equal(
        out, "1,0,1,2,3,0.5,0.25,7,8,0,,\n2,1,1,2,3,0.5,0.25,7,8,0,,\n3,0,2,40,6,0.5,0.25,7,8,0,,\n"
             "1,9,0,1,sent,1,2,3,4,5\n");
    free(out);
}

TEST(malformed_rows_are_omitted_and_counted)
{
    size_t bad;
    int rc;
    char *out = append(EVAL
                       "1,0,1,2,3,0.5,0.25,7\n\033[2J,0,1,2,3,0.5,0.25,7,8,0,,\n\"=x\",0,1,2,3,4,5,6,7\n\n"
                       "9,0,1,2,3,0.5,0.25,7,8,0,,\n",
                       &bad, &rc);

    assert_int_equal(rc, 0);
    assert_int_equal(bad, 4);
    assert_string_equal(out, "9,0,1,2,3,0.5,0.25,7,8,0,,\n");
    free(out);
}

TEST(a_row_of_another_node_rejects_the_file)
{
    size_t bad;
    int rc;
    char *out = append(EVAL "1,0,1,2,3,0.5,0.25,7,8,0,,\n2,1,2,4,6,0.5,0.25,7,8,0,,\n", &bad, &rc);

    assert_int_equal(rc, ERR_PROTOCOL);
    assert_error_has("node 1");
    assert_string_equal(out, "");
    free(out);
}

TEST(unknown_columns_are_refused)
{
    size_t bad;
    int rc;

    free(append("time_s,node\n1,2\n", &bad, &rc));
    assert_int_equal(rc, ERR_PROTOCOL);
    assert_error_has("the columns differ");
    free(append("", &bad, &rc));
    assert_int_equal(rc, 0);
}

TEST(the_header_matches_the_record_table)
{
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);

    collect_header(f, &artifacts[ARTIFACT_EVAL]);
    fclose(f);
    assert_string_equal(out, EVAL);
    free(out);
}

TEST(traffic_is_summed_by_peer_in_row_order)
{
    static const char text[] =
        "time_s,round,node,peer,direction,messages,raw_bytes,wire_bytes,encode_s,transfer_s\n"
        "0.1,1,0,2,sent,1,10,74,0.1,0.1\n"
        "0.1,1,0,2,received,2,20,148,,0.1\n"
        "0.1,1,0,-2,sent,1,1,65,0.1,0.1\n"
        "no row\n"
        "0.2,2,0,2,sent,1,10,74,0.1,0.1\n"
        "0.2,2,0,-2,received,1,3,67,,0.1\n"
        "0.2,2,0,2,sent,1,10,7";
    json_t *peers = collect_peers(text, strlen(text));
    char *dump = json_dumps(peers, JSON_COMPACT | JSON_PRESERVE_ORDER);

    assert_string_equal(dump, "[{\"peer\":2,\"sent_messages\":2,\"sent_raw_bytes\":20,\"sent_bytes\":148,"
                              "\"recv_messages\":2,\"recv_raw_bytes\":20,\"recv_bytes\":148},"
                              "{\"peer\":-2,\"sent_messages\":1,\"sent_raw_bytes\":1,\"sent_bytes\":65,"
                              "\"recv_messages\":1,\"recv_raw_bytes\":3,\"recv_bytes\":67}]");
    free(dump);
    json_decref(peers);
}

static const char line[] = "{\"seq\":1,\"at\":\"2026-11-21T07:31:22.123Z\",\"event\":\"log\"}\n";

TEST(lines_beyond_the_limit_of_all_nodes_are_dropped_and_reported)
{
    struct event_log l = {.max = 300};

    assert_true(event_log_add(&l, 0, line, sizeof line - 1));
    assert_int_equal(l.n, 1);
    for (int node = 1; node < 9; node++)
        event_log_add(&l, node, line, sizeof line - 1);
    assert_false(event_log_add(&l, 9, line, sizeof line - 1));
    assert_in_range(l.n, 2, 3);
    event_log_clear(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traffic_is_summed_by_peer_in_row_order),
        cmocka_unit_test(whole_rows_are_kept_and_partial_ones_are_not),
        cmocka_unit_test(rows_of_an_earlier_attempt_count_up_to_a_step_and_a_round),
        cmocka_unit_test(malformed_rows_are_omitted_and_counted),
        cmocka_unit_test(a_row_of_another_node_rejects_the_file),
        cmocka_unit_test(unknown_columns_are_refused),
        cmocka_unit_test(the_header_matches_the_record_table),
        cmocka_unit_test(lines_beyond_the_limit_of_all_nodes_are_dropped_and_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
