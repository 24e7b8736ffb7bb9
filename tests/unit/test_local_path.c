/* Who may share memory, and what is made of words about it. */
#include "agent/runner/local_path.h"

#include "agent/runner/arena.h"
#include "shared/clock.h"
#include "tests/lib/arena_crew.h"
#include "tests/lib/mesh_nodes.h"
#include "tests/unit/unit.h"

enum { N = 1000, INVITES = 0, CAN = 1, CANNOT = 2 }; /* the words, as docs/protocol.md has them */

static struct err e;

/* What a local path does not say by itself. */
static void say(struct mesh *m, int to, uint32_t word, const void *bytes, size_t len)
{
    struct mesh_head h = {.kind = FRAME_LOCAL, .peer = to, .word = word};
    struct mesh_buf *b = mesh_buf_take(m);

    b->len = len;
    memcpy(b->bytes, bytes, len);
    assert_ok(mesh_send(m, &h, b, &e));
    mesh_buf_put(m, b);
}

/* The next word comes; what the local path says to it. */
static int hear(struct local_path *p)
{
    struct mesh_event ev;

    seconds_until_event(p->mesh, &ev);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.kind, FRAME_LOCAL);
    return local_path_on_message(p, &ev, &e);
}

static void assert_hears(struct mesh *m, uint32_t word)
{
    struct mesh_event ev;

    seconds_until_event(m, &ev);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.word, word);
    mesh_buf_put(m, ev.buf);
}

static bool both_settled(const struct local_path p[2])
{
    return local_path_is_settled(&p[0]) && local_path_is_settled(&p[1]);
}

static void advance(struct local_path *p)
{
    struct mesh_event ev;

    assert_ok(mesh_poll(p->mesh, &ev, 0, &e));
    assert_ok(ev.kind == MESH_MESSAGE ? local_path_on_message(p, &ev, &e) : local_path_advance(p, &e));
}

TEST(workers_of_one_machine_share_memory)
{
    int fds = crew_fds();
    struct local_path p[2];
    static float out[2][N];
    struct meeting *met;
    struct arena *a[2];
    struct pair nodes;

    pair_prepare(&nodes);
    pair_run(&nodes);
    for (int i = 0; i < 2; i++)
        assert_ok(local_path_begin(&p[i], nodes.o[i].mesh, 2, i, arena_bytes(N), &e));
    for (double end = clock_now() + 20; clock_now() < end && !both_settled(p);)
        for (int i = 0; i < 2; i++)
            advance(&p[i]);
    for (int i = 0; i < 2; i++) {
        assert_true(local_path_is_settled(&p[i]));
        met = local_path_take(&p[i]);
        assert_non_null(met);
        assert_ok(arena_open(&a[i], met, N, &e));
        arena_in(a[i])[N - 1] = (float)(i + 1);
        assert_ok(arena_start(
            a[i], &(struct arena_collective){ARENA_ALL_REDUCE, arena_in(a[i]), out[i], N, false, 0}, &e));
    }
    for (int i = 0; i < 4; i++)
        assert_ok(arena_poll(a[i % 2], &e));
    for (int i = 0; i < 2; i++) {
        assert_true(out[i][N - 1] == 3);
        arena_close(a[i]);
    }
    pair_close(&nodes);
    assert_int_equal(crew_fds(), fds);
}

TEST(with_a_worker_that_invites_twice_nothing_is_shared_and_it_is_said_why)
{
    static const int both[] = {0, 1};
    static const uint8_t secret[MEETING_SECRET_BYTES] = {5};
    uint8_t invitation[LOCAL_PATH_BYTES];
    int fds = crew_fds(), mappings = crew_mappings();
    struct meeting *m; /* node 0's */
    struct local_path p;
    struct pair nodes;

    pair_prepare(&nodes);
    pair_run(&nodes);
    assert_ok(meeting_open(&m, &(struct meeting_config){2, both, 0, arena_bytes(N)}, &e));
    meeting_expect(m, 1, secret);
    memcpy(invitation, meeting_name(m), MEETING_NAME_BYTES);
    memcpy(invitation + MEETING_NAME_BYTES, secret, sizeof secret);
    assert_ok(local_path_begin(&p, nodes.o[1].mesh, 2, 1, arena_bytes(N), &e));
    for (int i = 0; i < 2; i++) {
        assert_non_null(p.meeting);
        say(nodes.o[0].mesh, 1, INVITES, invitation, sizeof invitation);
        assert_ok(hear(&p));
    }
    assert_hears(nodes.o[0].mesh, CANNOT);
    say(nodes.o[0].mesh, 1, CAN, "", 0);
    assert_ok(hear(&p));
    assert_true(local_path_is_settled(&p));
    assert_null(local_path_take(&p));
    assert_string_equal(p.why.text, "node 0 has been met before");
    meeting_close(m);
    pair_close(&nodes);
    assert_int_equal(crew_fds(), fds);
    assert_int_equal(crew_mappings(), mappings);
}

TEST(where_another_worker_cannot_nobody_does)
{
    struct local_path p;
    struct pair nodes;

    pair_prepare(&nodes);
    pair_run(&nodes);
    assert_ok(local_path_begin(&p, nodes.o[0].mesh, 2, 0, arena_bytes(N), &e));
    assert_hears(nodes.o[1].mesh, INVITES);
    say(nodes.o[1].mesh, 0, CANNOT, "", 0);
    assert_ok(hear(&p));
    assert_hears(nodes.o[1].mesh, CANNOT);
    assert_true(local_path_is_settled(&p));
    assert_null(local_path_take(&p));
    assert_string_equal(p.why.text, "another worker cannot share memory");
    pair_close(&nodes);
}

TEST(words_that_are_not_a_workers_to_say_are_refused)
{
    static const struct {
        int from;
        struct {
            uint32_t word;
            size_t len;
        } says[2];
        int n_says; /* the last of which is refused */
    } cases[] = {
        {0, {{3, 0}}, 1},
        {0, {{UINT32_MAX, 0}}, 1},
        {0, {{INVITES, LOCAL_PATH_BYTES - 1}}, 1},
        {0, {{INVITES, 0}}, 1},
        {0, {{CAN, 1}}, 1},
        {0, {{CAN, 0}, {CAN, 0}}, 2},
        {0, {{CAN, 0}, {CANNOT, 0}}, 2},
        {0, {{CAN, 0}, {INVITES, LOCAL_PATH_BYTES}}, 2},
        {1, {{INVITES, LOCAL_PATH_BYTES}}, 1}, /* the earlier of two invites */
    };
    static const uint8_t bytes[LOCAL_PATH_BYTES] = {0};

    for (size_t k = 0; k < N_OF(cases); k++) {
        int from = cases[k].from;
        struct local_path p;
        struct pair nodes;

        pair_prepare(&nodes);
        pair_run(&nodes);
        assert_ok(local_path_begin(&p, nodes.o[!from].mesh, 2, !from, arena_bytes(N), &e));
        for (int i = 0; i < cases[k].n_says; i++) {
            say(nodes.o[from].mesh, !from, cases[k].says[i].word, bytes, cases[k].says[i].len);
            assert_int_equal(hear(&p), i + 1 < cases[k].n_says ? 0 : ERR_PROTOCOL);
        }
        assert_says("sent a word about shared memory that is not its to say");
        meeting_close(local_path_take(&p));
        pair_close(&nodes);
    }
}

TEST(more_workers_than_can_share_memory_say_nothing_and_share_nothing)
{
    struct local_path p;

    assert_ok(local_path_begin(&p, NULL, MEETING_MAX + 1, 3, arena_bytes(N), &e));
    assert_true(local_path_is_settled(&p));
    assert_null(local_path_take(&p));
    assert_string_equal(p.why.text, "65 workers are more than the 64 that can share memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_of_one_machine_share_memory),
        cmocka_unit_test(with_a_worker_that_invites_twice_nothing_is_shared_and_it_is_said_why),
        cmocka_unit_test(where_another_worker_cannot_nobody_does),
        cmocka_unit_test(words_that_are_not_a_workers_to_say_are_refused),
        cmocka_unit_test(more_workers_than_can_share_memory_say_nothing_and_share_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
