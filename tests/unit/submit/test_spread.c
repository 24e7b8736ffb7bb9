#include "submit/files/spread.h"

#include <pthread.h>
#include <sched.h>

#include "tests/unit/unit.h"

struct seen {
    pthread_mutex_t lock;
    size_t calls[SPREAD_MAX], n;
};

static void note_call(void *arg, size_t k, size_t n)
{
    struct seen *s = arg;

    pthread_mutex_lock(&s->lock);
    s->calls[k]++;
    s->n = n;
    pthread_mutex_unlock(&s->lock);
}

TEST(each_part_is_done_once_and_there_are_no_more_than_wanted_or_processors)
{
    cpu_set_t cpus;

    assert_int_equal(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    for (size_t most = 0; most <= SPREAD_MAX + 1; most++) {
        struct seen s = {.lock = PTHREAD_MUTEX_INITIALIZER};
        size_t total = 0;

        spread(most, note_call, &s);
        assert_in_range(s.n, 1, most > 0 ? most : 1);
        assert_in_range(s.n, 1, (size_t)CPU_COUNT(&cpus));
        for (size_t k = 0; k < SPREAD_MAX; k++) {
            assert_int_equal(s.calls[k], k < s.n);
            total += s.calls[k];
        }
        assert_int_equal(total, s.n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_is_done_once_and_there_are_no_more_than_wanted_or_processors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
