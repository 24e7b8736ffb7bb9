#include "shared/base/loop.h"

#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/unit/unit.h"

struct pair {
    struct loop *loop;
    struct watch watch;
    struct pair *other;
    int n;
};

static void on_ready(void *arg, uint32_t events)
{
    struct pair *p = arg;
    char c;

    (void)events;
    p->n++;
    assert_int_equal(read(p->watch.fd, &c, 1), 1);
    if (p->other)
        loop_unwatch(p->loop, &p->other->watch);
}

TEST(a_watch_removed_in_the_same_turn_is_not_called)
{
    struct loop l;
    struct pair a = {.loop = &l}, b = {.loop = &l, .other = &a};
    int pipes[2][2];
    struct err e;

    a.other = &b;
    assert_ok(loop_open(&l, &e));
    for (int i = 0; i < 2; i++) {
        struct pair *p = i ? &b : &a;

        assert_int_equal(pipe(pipes[i]), 0);
        p->watch = (struct watch){.fd = pipes[i][0], .ready = on_ready, .arg = p};
        assert_ok(loop_watch(&l, &p->watch, EPOLLIN, &e));
        assert_int_equal(write(pipes[i][1], "x", 1), 1);
    }
    loop_turn(&l, 1);
    loop_turn(&l, 0);
    assert_int_equal(a.n + b.n, 1);
    for (int i = 0; i < 4; i++)
        close(pipes[i / 2][i % 2]);
    loop_close(&l);
}

struct tick {
    struct loop *loop;
    struct timer timer;
    int n, turn;    /* number of calls, and rank among all */
    double again_s; /* 0: not again */
};

static int n_turns;

static void on_due(void *arg)
{
    struct tick *t = arg;

    t->n++;
    t->turn = ++n_turns;
    if (t->again_s > 0)
        timer_set(t->loop, &t->timer, clock_now() + t->again_s);
}

TEST(timers_fire_once_in_order)
{
    struct loop l;
    struct tick a = {.loop = &l, .timer = {.due = on_due, .arg = &a}};
    struct tick b = {.loop = &l, .timer = {.due = on_due, .arg = &b}, .again_s = 3600};
    struct tick c = {.loop = &l, .timer = {.due = on_due, .arg = &c}};
    struct err e;

    assert_ok(loop_open(&l, &e));
    timer_set(&l, &a.timer, clock_now() + 0.01);
    timer_set(&l, &b.timer, clock_now() - 1);
    timer_set(&l, &c.timer, clock_now() + 3600);
    while (a.n == 0)
        loop_turn(&l, 60); /* waits for the earliest, not for the second */
    assert_int_equal(a.n, 1);
    assert_int_equal(b.n, 1);
    assert_true(b.turn < a.turn);
    assert_int_equal(c.n, 0);
    timer_set(&l, &c.timer, clock_now() - 1); /* moved */
    timer_cancel(&l, &b.timer);
    timer_cancel(&l, &b.timer);
    loop_turn(&l, 0);
    assert_int_equal(c.n, 1);
    assert_null(l.timers);
    loop_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_watch_removed_in_the_same_turn_is_not_called),
        cmocka_unit_test(timers_fire_once_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
