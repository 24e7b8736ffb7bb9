#include "tests/unit/unit.h"

#include "sim/queue.h"

static struct sim_queue q;
static struct sim_event ev;
static struct err e;

static void push(double at, int slot)
{
    assert_ok(sim_queue_push(&q, (struct sim_event){.at = at, .slot = slot}, &e));
}

TEST(events_are_ordered_by_time_however_they_were_pushed)
{
    struct rng r;
    double last = 0;

    rng_init(&r, 1, 2, 3);
    sim_queue_init(&q, 1);
    for (int i = 0; i < 20000; i++)
        push(rng_uniform(&r), i);
    for (int i = 0; i < 20000; i++) {
        assert_true(sim_queue_pop(&q, &ev));
        assert_true(ev.at >= last && q.now == ev.at);
        last = ev.at;
        if (i % 3 == 0)
            push(ev.at + rng_uniform(&r), i);
    }
    for (; sim_queue_pop(&q, &ev); last = ev.at)
        assert_true(ev.at >= last);
    assert_int_equal(q.n, 0);
    sim_queue_clear(&q);
}

/* The order in which eight simultaneous events come, as a number. */
static uint64_t order_of(uint64_t seed)
{
    uint64_t order = 0;

    sim_queue_init(&q, seed);
    for (int i = 0; i < 8; i++)
        push(1, i);
    while (sim_queue_pop(&q, &ev))
        order = order * 8 + (uint64_t)ev.slot;
    sim_queue_clear(&q);
    return order;
}

TEST(the_seed_orders_events_of_the_same_time)
{
    int n_different = 0;

    for (uint64_t seed = 1; seed <= 50; seed++) {
        assert_true(order_of(seed) == order_of(seed));
        n_different += order_of(seed) != order_of(seed + 1);
    }
    assert_true(n_different > 45);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_ordered_by_time_however_they_were_pushed),
        cmocka_unit_test(the_seed_orders_events_of_the_same_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
