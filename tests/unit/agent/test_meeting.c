#include "agent/folder/meeting.h"

#include <jansson.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/job/job_folder.h"
#include "tests/unit/unit.h"

enum { MOST = 4 };

#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

/* The processes of one launch, in one process. */
struct launch {
    char folder[64];
    struct meeting m[MOST];
    int n;
};

static struct meeting_member member(int rank, int n_workers, const char *machine)
{
    struct meeting_member k = {.node = rank < n_workers ? rank : -2 - (rank - n_workers)};

    snprintf(k.machine, sizeof k.machine, "%s", machine);
    snprintf(k.address, sizeof k.address, "192.0.2.%d", rank + 1);
    return k;
}

static void make_folder(struct launch *l, int n)
{
    static int count;

    *l = (struct launch){.n = n};
    snprintf(l->folder, sizeof l->folder, "/tmp/psgd-meeting-%d-%d", (int)getpid(), ++count);
    assert_int_equal(file_mkdirs(l->folder, 0700, &(struct err){0}), 0);
}

static void remove_folder(struct launch *l)
{
    for (int r = 0; r < l->n; r++)
        meeting_close(&l->m[r]);
    file_remove_tree(l->folder, &(struct err){0});
}

static void come(struct launch *l, int rank, const struct meeting_member *mine)
{
    struct err e;

    meeting_close(&l->m[rank]);
    assert_ok(meeting_open(&l->m[rank], l->folder, rank, l->n, mine, &e));
}

/* A worker, on the machine of all others. */
static void come_simply(struct launch *l, int rank)
{
    struct meeting_member k = member(rank, l->n, "one");

    come(l, rank, &k);
}

static void all_come(struct launch *l)
{
    for (int r = l->n - 1; r >= 0; r--)
        come_simply(l, r);
}

/* Repeats the step of all processes until it is done for all; returns how often at most. */
static int all_do(struct launch *l, int (*step)(struct meeting *m, struct err *e), int most)
{
    bool done[MOST] = {false};
    struct err e = {0};
    int n_done = 0;

    for (int i = 0; i < most && n_done < l->n; i++)
        for (int r = 0; r < l->n; r++)
            if (!done[r] && step(&l->m[r], &e) == 1) {
                done[r] = true;
                n_done++;
            }
    return n_done;
}

static void all_meet(struct launch *l)
{
    all_come(l);
    assert_int_equal(all_do(l, meeting_gather, 10), l->n);
}

static void all_are_ready(struct launch *l)
{
    struct err e;

    for (int r = 0; r < l->n; r++)
        assert_ok(meeting_say_ready(&l->m[r], 1000 + r, KEY, &e));
}

TEST(processes_that_come_in_any_order_meet)
{
    struct launch l;

    make_folder(&l, 3);
    all_meet(&l);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(l.m[r].attempt, 1);
        assert_true(l.m[r].is_on_one_machine);
        assert_string_equal(l.m[r].members[2].host, "127.0.0.1");
        assert_false(l.m[r].resumes);
    }
    all_are_ready(&l);
    assert_int_equal(all_do(&l, meeting_start, 10), 3);
    for (int r = 0; r < 3; r++)
        for (int other = 0; other < 3; other++)
            assert_int_equal(l.m[r].members[other].port, 1000 + other);
    remove_folder(&l);
}

TEST(files_of_an_earlier_launch_count_for_nothing)
{
    struct launch l;
    struct err e;

    make_folder(&l, 2);
    all_meet(&l);
    all_are_ready(&l);
    assert_int_equal(all_do(&l, meeting_start, 10), 2);
    /* Process 1 of the next launch finds an offer, a plan and a start of the one before. */
    come_simply(&l, 1);
    for (int i = 0; i < 5; i++)
        assert_int_equal(meeting_gather(&l.m[1], &e), 0);
    /* Process 0 finds a hello, also one that answers the former offer. */
    come_simply(&l, 0);
    assert_int_equal(meeting_gather(&l.m[0], &e), 0);
    assert_int_equal(all_do(&l, meeting_gather, 10), 2);
    assert_int_equal(meeting_start(&l.m[0], &e), 0);
    assert_int_equal(meeting_start(&l.m[1], &e), 0);
    remove_folder(&l);
}

/* The leader has read the hello of the first one already. */
TEST(a_process_that_was_started_again_before_all_have_met_is_met)
{
    struct launch l;
    struct err e;

    make_folder(&l, 3);
    all_come(&l);
    assert_int_equal(meeting_gather(&l.m[1], &e), 0);
    assert_int_equal(meeting_gather(&l.m[0], &e), 0);
    assert_true(l.m[0].members[1].is_here);
    come_simply(&l, 1);
    assert_int_equal(meeting_gather(&l.m[1], &e), 0);
    assert_int_equal(all_do(&l, meeting_gather, 10), 3);
    remove_folder(&l);
}

TEST(a_process_that_was_started_again_after_all_have_met_ends_the_launch)
{
    struct launch l;
    struct err e;

    make_folder(&l, 2);
    all_meet(&l);
    l.m[0].members[1].node = 1;
    assert_ok(meeting_say_ready(&l.m[0], 1000, KEY, &e));
    assert_int_equal(meeting_start(&l.m[0], &e), 0);
    come_simply(&l, 1);
    assert_int_equal(meeting_gather(&l.m[1], &e), 0);
    assert_int_equal(meeting_start(&l.m[0], &e), ERR_LOST);
    assert_error_has("process 1 (node 1) was started again after all had met");
    assert_int_equal(meeting_gather(&l.m[1], &e), ERR_LOST);
    assert_error_has("process 1 (node 1) was started again after all had met");
    remove_folder(&l);
}

static void write_document(const struct launch *l, const char *name, const char *fmt, const char *launch)
{
    char path[128], text[512];
    struct err e;

    snprintf(path, sizeof path, "%s/" JOB_FOLDER_MEET "/%s", l->folder, name);
    snprintf(text, sizeof text, fmt, launch);
    assert_ok(file_write(path, text, strlen(text), 0600, &e));
}

TEST(a_damaged_document_is_refused_by_name)
{
    struct launch l;
    struct err e;

    make_folder(&l, 2);
    all_come(&l);
    write_document(
        &l, "hello-1.json",
        "{\"launch\":\"%s\",\"nonce\":\"n\",\"machine\":\"m\",\"boot\":\"b\",\"host\":\"\",\"address\":\"\","
        "\"attempt\":1e300}",
        l.m[0].launch);
    assert_int_equal(meeting_gather(&l.m[0], &e), ERR_CONFIG);
    assert_error_has("meet/hello-1.json: /attempt: ");
    all_meet(&l);
    write_document(&l, "ready-1.json", "{\"launch\":\"%s\",\"port\":65536}", l.m[0].launch);
    assert_int_equal(meeting_start(&l.m[0], &e), ERR_CONFIG);
    assert_error_has("meet/ready-1.json: /port: ");
    write_document(&l, "ready-1.json", "{\"launch\":\"%s\",\"port\":1,\"data_key\":\"x\"}", l.m[0].launch);
    assert_int_equal(meeting_start(&l.m[0], &e), ERR_CONFIG);
    assert_error_has("meet/ready-1.json: /data_key: not 64 hex digits");
    write_document(&l, "start.json",
                   "{\"launch\":\"%s\",\"ports\":[1],\"data_keys\":[\"" KEY "\",\"" KEY "\"]}",
                   l.m[0].launch);
    assert_int_equal(meeting_start(&l.m[1], &e), ERR_CONFIG);
    assert_error_has("meet/start.json: /ports/1: not a port");
    write_document(&l, "start.json", "{\"launch\":\"%s\",\"ports\":[1,2],\"data_keys\":[\"" KEY "\"]}",
                   l.m[0].launch);
    assert_int_equal(meeting_start(&l.m[1], &e), ERR_CONFIG);
    assert_error_has("meet/start.json: /data_keys/1: not 64 hex digits");
    remove_folder(&l);
}

TEST(a_job_that_has_succeeded_is_refused_in_each_process)
{
    struct launch l;
    struct err e = {0};

    make_folder(&l, 2);
    for (int r = 0; r < 2; r++) {
        struct meeting_member k = member(r, 2, "one");

        k.attempt = 2;
        k.state = JOB_SUCCEEDED;
        come(&l, r, &k);
    }
    assert_int_equal(meeting_gather(&l.m[1], &e), 0);
    assert_int_equal(meeting_gather(&l.m[0], &e), ERR_CONFLICT);
    assert_error_has("the job has succeeded already, in attempt 2");
    assert_int_equal(meeting_gather(&l.m[1], &e), ERR_REFUSED);
    assert_error_has("the job has succeeded already, in attempt 2");
    remove_folder(&l);
}

TEST(a_further_attempt_begins_at_the_last_point_that_all_nodes_have)
{
    static const int64_t steps[2][3] = {{30, 20, 0}, {20, 10, 40}};
    struct launch l;

    make_folder(&l, 2);
    for (int r = 0; r < 2; r++) {
        struct meeting_member k = member(r, 2, "one");

        k.attempt = r + 1; /* the node that has begun one more attempt decides the number */
        k.state = JOB_FAILED;
        for (int i = 0; i < 3; i++)
            if (steps[r][i] > 0)
                k.points[k.n_points++] = (struct meeting_point){
                    .job = "j-1", .epoch = steps[r][i] / 10, .step = steps[r][i], .round = 1};
        for (size_t i = 0; i < k.n_points; i++)
            k.points[i].round = k.points[i].step;
        come(&l, r, &k);
    }
    assert_int_equal(all_do(&l, meeting_gather, 10), 2);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(l.m[r].attempt, 3);
        assert_true(l.m[r].resumes);
        assert_int_equal(l.m[r].resume.step, 20);
    }
    remove_folder(&l);
}

static int n_until_failure; /* allocations; 0: none fails */

static void *allocate(size_t size)
{
    return n_until_failure > 0 && --n_until_failure == 0 ? NULL : malloc(size);
}

/* Repeats the step of the leader with its k-th allocation failing. Returns whether it was done; *is_last: the
 * step has fewer than k. */
static bool lead_with_failure(struct launch *l, int (*step)(struct meeting *m, struct err *e), int k,
                              bool *is_last)
{
    struct err e;
    bool is_done;

    n_until_failure = k;
    is_done = step(&l->m[0], &e) == 1;
    *is_last = n_until_failure > 0;
    n_until_failure = 0;
    return is_done;
}

/* A plan without the point from which process 0 goes on would have the others begin anew. */
TEST(a_plan_and_a_start_are_whole_or_not_written_where_memory_is_short)
{
    struct launch l;
    struct err e;

    json_set_alloc_funcs(allocate, free);
    for (int step = 0; step < 2; step++) {
        bool is_last = false;

        for (int k = 1; !is_last; k++) {
            bool is_planned, is_started = false;

            make_folder(&l, 2);
            for (int r = 1; r >= 0; r--) {
                struct meeting_member one = member(r, 2, "one");

                one.points[one.n_points++] = (struct meeting_point){.job = "j-1", .step = 20, .round = 20};
                come(&l, r, &one);
            }
            assert_int_equal(meeting_gather(&l.m[1], &e), 0);
            is_planned = lead_with_failure(&l, meeting_gather, step == 0 ? k : 0, &is_last);
            assert_int_equal(meeting_gather(&l.m[1], &e) == 1, is_planned);
            if (is_planned) {
                assert_true(l.m[1].resumes == l.m[0].resumes);
                assert_string_equal(l.m[1].members[1].host, "127.0.0.1");
            }
            all_are_ready(&l);
            if (step == 1) {
                is_started = lead_with_failure(&l, meeting_start, k, &is_last);
                assert_int_equal(meeting_start(&l.m[1], &e) == 1, is_started);
            }
            remove_folder(&l);
        }
    }
    json_set_alloc_funcs(malloc, free);
}

/* Names under .invalid have no address (RFC 6761). */
TEST(nodes_of_one_machine_get_one_host_and_a_name_without_an_address_is_replaced)
{
    static const char *const machines[] = {"a.invalid", "a.invalid", "b.invalid"};
    struct launch l;

    make_folder(&l, 3);
    for (int r = 0; r < 3; r++) {
        struct meeting_member k = member(r, 3, machines[r]);

        if (r == 2)
            snprintf(k.given, sizeof k.given, "192.0.2.9");
        come(&l, r, &k);
    }
    assert_int_equal(all_do(&l, meeting_gather, 10), 3);
    for (int r = 0; r < 3; r++) {
        assert_false(l.m[r].is_on_one_machine);
        assert_string_equal(l.m[r].members[0].host, "192.0.2.1");
        assert_string_equal(l.m[r].members[1].host, "192.0.2.1");
        assert_string_equal(l.m[r].members[2].host, "192.0.2.9");
    }
    remove_folder(&l);
}

TEST(machines_of_one_name_are_told_apart_by_their_boots)
{
    static const char *const boots[] = {"b-1", "b-2", "b-1"};
    struct launch l;

    make_folder(&l, 3);
    for (int r = 0; r < 3; r++) {
        struct meeting_member k = member(r, 3, "localhost.localdomain");

        snprintf(k.boot, sizeof k.boot, "%s", boots[r]);
        come(&l, r, &k);
    }
    assert_int_equal(all_do(&l, meeting_gather, 10), 3);
    for (int r = 0; r < 3; r++) {
        const struct meeting_member *of = l.m[r].members;

        assert_false(l.m[r].is_on_one_machine);
        assert_string_equal(of[0].host, "192.0.2.1");
        assert_string_equal(of[1].host, "192.0.2.2");
        assert_string_equal(of[2].host, "192.0.2.1");
        assert_true(meeting_is_one_machine(&of[0], &of[2]));
        assert_false(meeting_is_one_machine(&of[0], &of[1]));
    }
    remove_folder(&l);
}

TEST(a_node_that_fails_before_the_start_is_named_to_all)
{
    const struct err codec = {.code = ERR_CODEC, .text = "its codec does not load"};
    struct launch l;
    struct err e;

    make_folder(&l, 2);
    all_meet(&l);
    assert_ok(meeting_say_ready(&l.m[0], 1000, KEY, &e));
    assert_true(meeting_tell_failure(&l.m[1], &codec));
    l.m[0].members[1].node = 1; /* as the job says */
    assert_int_equal(meeting_start(&l.m[0], &e), ERR_LOST);
    assert_error_has("node(1): its codec does not load");
    assert_int_equal(meeting_start(&l.m[1], &e), ERR_LOST);
    assert_error_has("node(1): its codec does not load");
    remove_folder(&l);
}

/* As where the folder of one machine is full. */
TEST(a_process_that_fails_before_all_have_met_ends_the_others)
{
    const struct err full = {.code = ERR_NOSPACE, .text = "its disk is full"};
    struct launch l;
    struct err e;

    for (int is_late = 0; is_late < 2; is_late++) { /* it fails after its hello, or before the offer */
        make_folder(&l, 3);
        if (is_late) {
            all_come(&l);
            assert_int_equal(meeting_gather(&l.m[1], &e), 0);
            assert_int_equal(meeting_gather(&l.m[0], &e), 0);
        } else {
            come_simply(&l, 1);
        }
        assert_false(meeting_tell_failure(&l.m[1], &full));
        if (!is_late) {
            come_simply(&l, 0);
            come_simply(&l, 2);
            assert_false(meeting_tell_failure(&l.m[1], &full));
        }
        l.m[0].members[1].node = 1;
        assert_int_equal(meeting_gather(&l.m[0], &e), ERR_LOST);
        assert_error_has("node(1): its disk is full");
        assert_true(meeting_tell_failure(&l.m[1], &full));
        /* Process 2 is late: process 0 writes the failure for it when its hello has come. */
        assert_false(meeting_tell_failure(&l.m[0], &e));
        assert_int_equal(meeting_gather(&l.m[2], &(struct err){0}), 0);
        assert_true(meeting_tell_failure(&l.m[0], &e));
        assert_int_equal(meeting_gather(&l.m[2], &e), ERR_LOST);
        assert_error_has("node(1): its disk is full");
        assert_true(meeting_tell_failure(&l.m[2], &e));
        remove_folder(&l);
    }
}

TEST(process_0_that_fails_tells_each_process_that_comes)
{
    const struct err full = {.code = ERR_NOSPACE, .text = "its disk is full"};
    struct launch l;
    struct err e;

    make_folder(&l, 3);
    all_come(&l);
    for (int r = 1; r < 3; r++) {
        assert_false(meeting_tell_failure(&l.m[0], &full));
        assert_int_equal(meeting_gather(&l.m[r], &e), 0);
    }
    assert_true(meeting_tell_failure(&l.m[0], &full));
    for (int r = 1; r < 3; r++) {
        assert_int_equal(meeting_gather(&l.m[r], &e), ERR_LOST);
        assert_error_has("its disk is full");
    }
    remove_folder(&l);
}

TEST(a_process_that_was_asked_to_end_cancels_the_launch)
{
    const struct err asked = {.code = ERR_CANCELLED, .text = "Terminated before the start"};
    struct launch l;
    struct err e;

    make_folder(&l, 2);
    all_come(&l);
    assert_int_equal(meeting_gather(&l.m[1], &e), 0);
    assert_false(meeting_tell_failure(&l.m[1], &asked));
    assert_int_equal(meeting_gather(&l.m[0], &e), ERR_CANCELLED);
    all_meet(&l);
    assert_true(meeting_tell_failure(&l.m[1], &asked));
    assert_int_equal(meeting_start(&l.m[0], &e), ERR_CANCELLED);
    assert_error_has("Terminated before the start");
    remove_folder(&l);
}

TEST(the_missing_processes_are_named)
{
    struct launch l;
    char who[200];
    struct err e;

    make_folder(&l, 3);
    come_simply(&l, 0);
    for (int r = 0; r < 3; r++)
        l.m[0].members[r].node = member(r, 2, "one").node;
    assert_int_equal(meeting_gather(&l.m[0], &e), 0);
    meeting_missing(&l.m[0], who, sizeof who);
    assert_string_equal(who, "process 1 (node 1), process 2 (node -2)");
    come_simply(&l, 1);
    assert_int_equal(meeting_gather(&l.m[1], &e), 0);
    assert_int_equal(meeting_gather(&l.m[0], &e), 0);
    meeting_missing(&l.m[0], who, sizeof who);
    assert_string_equal(who, "process 2 (node -2)");
    remove_folder(&l);
}

/* Names under .invalid have no address. */
TEST(process_0_waits_until_a_name_that_is_given_has_an_address)
{
    struct meeting_member k = member(1, 2, "one");
    struct launch l;
    char who[200];
    struct err e;

    make_folder(&l, 2);
    all_come(&l);
    snprintf(k.given, sizeof k.given, "b.invalid");
    come(&l, 1, &k);
    l.m[0].members[1].node = 1;
    assert_int_equal(meeting_gather(&l.m[1], &e), 0);
    assert_int_equal(meeting_gather(&l.m[0], &e), 0);
    meeting_missing(&l.m[0], who, sizeof who);
    assert_string_equal(who, "the address of b.invalid, process 1 (node 1)");
    snprintf(k.given, sizeof k.given, "127.0.0.1");
    come(&l, 1, &k);
    assert_int_equal(meeting_gather(&l.m[1], &e), 0);
    assert_int_equal(meeting_gather(&l.m[0], &e), 1);
    remove_folder(&l);
}

TEST(process_0_and_a_user_can_stop_the_others_until_the_next_launch)
{
    char reason[200], path[128];
    bool has_failed;
    struct launch l;
    struct err e;

    make_folder(&l, 2);
    all_meet(&l);
    assert_false(meeting_is_stopped(&l.m[1], reason, &has_failed));
    meeting_say_stop(&l.m[0], "node(0): CodecFailed", true);
    assert_true(meeting_is_stopped(&l.m[1], reason, &has_failed));
    assert_string_equal(reason, "node(0): CodecFailed");
    assert_true(has_failed);
    all_meet(&l);
    assert_false(meeting_is_stopped(&l.m[1], reason, &has_failed));
    snprintf(path, sizeof path, "%s/" JOB_FOLDER_CANCEL, l.folder);
    assert_ok(file_write(path, "{\"reason\":\"enough\"}", 19, 0600, &e));
    for (int r = 0; r < 2; r++) {
        assert_true(meeting_is_stopped(&l.m[r], reason, &has_failed));
        assert_string_equal(reason, "enough");
        assert_false(has_failed);
    }
    all_meet(&l);
    assert_false(meeting_is_stopped(&l.m[0], reason, &has_failed));
    remove_folder(&l);
}

TEST(each_launch_has_keys_of_its_own)
{
    uint8_t secret[SHA256_BYTES] = {7}, first[SHA256_BYTES], other[SHA256_BYTES];
    struct launch l;

    make_folder(&l, 2);
    all_meet(&l);
    meeting_key(first, &l.m[0], secret);
    meeting_key(other, &l.m[1], secret);
    assert_memory_equal(first, other, sizeof first);
    all_meet(&l);
    meeting_key(other, &l.m[1], secret);
    assert_memory_not_equal(first, other, sizeof first);
    remove_folder(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_that_come_in_any_order_meet),
        cmocka_unit_test(files_of_an_earlier_launch_count_for_nothing),
        cmocka_unit_test(a_process_that_was_started_again_before_all_have_met_is_met),
        cmocka_unit_test(a_process_that_was_started_again_after_all_have_met_ends_the_launch),
        cmocka_unit_test(a_damaged_document_is_refused_by_name),
        cmocka_unit_test(a_job_that_has_succeeded_is_refused_in_each_process),
        cmocka_unit_test(a_further_attempt_begins_at_the_last_point_that_all_nodes_have),
        cmocka_unit_test(a_plan_and_a_start_are_whole_or_not_written_where_memory_is_short),
        cmocka_unit_test(nodes_of_one_machine_get_one_host_and_a_name_without_an_address_is_replaced),
        cmocka_unit_test(machines_of_one_name_are_told_apart_by_their_boots),
        cmocka_unit_test(a_node_that_fails_before_the_start_is_named_to_all),
        cmocka_unit_test(a_process_that_fails_before_all_have_met_ends_the_others),
        cmocka_unit_test(process_0_that_fails_tells_each_process_that_comes),
        cmocka_unit_test(a_process_that_was_asked_to_end_cancels_the_launch),
        cmocka_unit_test(the_missing_processes_are_named),
        cmocka_unit_test(process_0_waits_until_a_name_that_is_given_has_an_address),
        cmocka_unit_test(process_0_and_a_user_can_stop_the_others_until_the_next_launch),
        cmocka_unit_test(each_launch_has_keys_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
