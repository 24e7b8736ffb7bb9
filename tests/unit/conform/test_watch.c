/* The layer between a host and a codec that is checked. */
#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conform/watch.h"
#include "runner/exchange/exchange_private.h"

static struct err e;
static struct codec_check_page page;
static char seen[16]; /* the page's callback, as the codec saw it */
static size_t last_byte;

static int merge(struct codec *c, int from, struct wire_in *in)
{
    (void)c, (void)from;
    strcpy(seen, page.callback);
    last_byte = (size_t)(uintptr_t)(in->bytes + in->len);
    watch_allocation(seen); /* an address in this program, where the plug-in is */
    watch_allocation(&c);   /* an address outside of all code */
    return wire_get_u32(in) == 7 ? CODEC_GO : ERR_CODEC;
}

static int encode(struct codec *c, struct wire_out *out)
{
    (void)c, (void)out;
    return CODEC_WAIT;
}

static const struct codec_round rule = {.encode = encode, .merge = merge};
static const struct codec_plugin plugin = {.name = "a", .more = CODEC_MORE(.round = &rule)};

static int call_merge(struct codec *c, const void *bytes, size_t len)
{
    struct wire_in in = {.bytes = bytes, .len = len};

    return watch_plugin()->more->round->merge(c, 3, &in);
}

TEST(the_page_shows_the_current_callback_and_nothing_after_its_return)
{
    struct codec_run run = {.node = 1, .step = 5};
    struct codec c = {.run = &run};
    uint32_t seven = 7;

    assert_ok(watch_open(&plugin, &page, &e));
    assert_int_equal(call_merge(&c, &seven, sizeof seven), CODEC_GO);
    assert_string_equal(seen, "merge");
    assert_true(page.node == 1 && page.from == 3 && page.step == 5 && page.n_turns == 2);
    assert_string_equal(page.callback, "");
    assert_int_equal(watch_plugin()->more->round->encode(&c, NULL), CODEC_WAIT);
    assert_int_equal(page.n_turns, 4);
}

TEST(optional_callbacks_that_a_codec_lacks_stay_absent)
{
    assert_ok(watch_open(&plugin, &page, &e));
    assert_null(watch_plugin()->open);
    assert_null(watch_plugin()->more->round->apply);
    assert_null(watch_plugin()->more->round->reply);
    assert_null(watch_plugin()->more->events);
}

TEST(a_message_ends_at_the_end_of_accessible_memory)
{
    struct codec_run run = {.node = 1};
    struct codec c = {.run = &run};
    uint32_t values[3] = {7, 7, 7};

    assert_ok(watch_open(&plugin, &page, &e));
    for (size_t len = 0; len <= sizeof values; len++) {
        unsigned char *at = watch_buffer(WATCH_MESSAGE, len);
        size_t page_size = (size_t)sysconf(_SC_PAGESIZE), end = (size_t)(uintptr_t)at + (len + 3) / 4 * 4;

        assert_int_equal(end % page_size, 0);
        call_merge(&c, values, len);
        assert_true(last_byte <= end && end - last_byte < 4);
    }
}

TEST(a_read_beyond_a_message_is_reported_with_its_distance)
{
    int status;
    pid_t pid;

    assert_ok(watch_open(&plugin, &page, &e));
    page.beyond_what = CHECK_BEYOND_NOTHING;
    watch_fault(watch_buffer(WATCH_MESSAGE, 8) + 8 + 4);
    assert_int_equal(page.beyond_what, CHECK_BEYOND_MESSAGE);
    assert_int_equal(page.beyond, 5);
    watch_fault(watch_buffer(WATCH_VECTOR, 8) + 8);
    assert_int_equal(page.beyond_what, CHECK_BEYOND_VECTOR);
    assert_int_equal(page.beyond, 1);
    page.beyond_what = CHECK_BEYOND_NOTHING;
    watch_fault(&status);
    assert_int_equal(page.beyond_what, CHECK_BEYOND_NOTHING);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL); /* cmocka has its own */
        _exit(*(volatile unsigned char *)(watch_buffer(WATCH_MESSAGE, 8) + 8));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static int on_collective(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static void count(void *owner, const struct watch_call *call)
{
    assert_string_equal(call->name, "on_collective");
    assert_null(call->in);
    ++*(int *)owner;
}

TEST(a_completed_collective_calls_the_receive_hook)
{
    static const struct codec_events events = {.on_collective = on_collective};
    const struct codec_plugin collects = {.name = "b", .more = CODEC_MORE(.events = &events)};
    struct codec_run run = {.node = 1};
    struct channel ch = {.codec.run = &run};
    int n = 0;

    assert_ok(watch_open(&collects, &page, &e));
    watch_receives(count, &n);
    assert_int_equal(watch_plugin()->more->events->on_collective(&ch.codec), CODEC_GO);
    watch_receives(NULL, NULL);
    assert_int_equal(n, 1);
}

TEST(allocations_are_counted_in_the_codec_after_its_second_round_only)
{
    struct codec_run run = {.node = 1, .step = 9, .round = 1};
    struct codec c = {.run = &run};
    uint32_t seven = 7;
    uint64_t before;

    assert_ok(watch_open(&plugin, &page, &e));
    before = watch_allocations();
    call_merge(&c, &seven, sizeof seven);
    watch_allocation(seen);
    assert_int_equal(watch_allocations(), before);
    run.round = 2;
    call_merge(&c, &seven, sizeof seven);
    watch_allocation(seen);
    assert_int_equal(watch_allocations(), before + 1);
    assert_true(watch_sees_allocations());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_shows_the_current_callback_and_nothing_after_its_return),
        cmocka_unit_test(optional_callbacks_that_a_codec_lacks_stay_absent),
        cmocka_unit_test(a_message_ends_at_the_end_of_accessible_memory),
        cmocka_unit_test(a_read_beyond_a_message_is_reported_with_its_distance),
        cmocka_unit_test(a_completed_collective_calls_the_receive_hook),
        cmocka_unit_test(allocations_are_counted_in_the_codec_after_its_second_round_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
