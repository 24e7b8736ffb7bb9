/* What a message takes, by messages of this process to itself. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "shared/clock.h"
#include "sim/overhead.h"

static struct err e;

TEST(a_message_of_any_length_comes_as_it_was_sent_and_takes_its_time)
{
    static const size_t lengths[] = {1, 48, 4096, 1 << 18, (1 << 22) + 1};
    size_t longest = lengths[N_OF(lengths) - 1];
    unsigned char *from = malloc(longest), *to = malloc(longest);
    struct sim_self self;

    assert_true(from && to);
    for (size_t i = 0; i < longest; i++)
        from[i] = (unsigned char)(i * 31 + i / 251);
    assert_ok(sim_self_open(&self, &e));
    for (size_t i = 0; i < N_OF(lengths); i++) {
        double begun = clock_now(), seconds = 0;

        memset(to, 0, longest);
        assert_ok(sim_self_send(&self, from, to, lengths[i], &seconds, &e));
        assert_memory_equal(from, to, lengths[i]);
        assert_true(seconds > 0 && seconds <= clock_now() - begun);
    }
    sim_self_close(&self);
    assert_true(self.out < 0 && self.in < 0);
    free(from);
    free(to);
}

TEST(where_there_is_no_socket_the_option_that_goes_without_is_named)
{
    struct rlimit was, none;
    struct sim_self self;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = was;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(sim_self_open(&self, &e), ERR_IO);
    setrlimit(RLIMIT_NOFILE, &was);
    assert_non_null(strstr(e.hint, "--overhead"));
    assert_true(self.out < 0 && self.in < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_of_any_length_comes_as_it_was_sent_and_takes_its_time),
        cmocka_unit_test(where_there_is_no_socket_the_option_that_goes_without_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
