/* The time a message takes, measured with messages of this machine to itself. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "sim/overhead.h"

static struct err e;

static unsigned char *bytes_of(size_t len, unsigned first)
{
    unsigned char *b = malloc(len);

    assert_non_null(b);
    for (size_t i = 0; i < len; i++)
        b[i] = (unsigned char)(first + i * 31 + i / 251);
    return b;
}

TEST(a_message_of_any_length_arrives_unchanged_and_is_timed)
{
    static const size_t lengths[] = {1, 48, 4096, 1 << 18, (1 << 22) + 1};
    size_t longest = lengths[N_OF(lengths) - 1];
    unsigned char *from = bytes_of(longest, 0), *to = malloc(longest);
    struct sim_wire own;

    assert_non_null(to);
    assert_ok(sim_ring_open(&own, 1, &e));
    for (size_t i = 0; i < N_OF(lengths); i++) {
        double begun = clock_now(), seconds = 0;

        memset(to, 0, longest);
        assert_ok(sim_wire_exchange(&own, from, to, lengths[i], &seconds, &e));
        assert_memory_equal(from, to, lengths[i]);
        assert_true(seconds > 0 && seconds <= clock_now() - begun);
    }
    sim_wire_close(&own);
    assert_true(own.out < 0 && own.in < 0);
    free(from);
    free(to);
}

enum { RING = 3, LONG = 1 << 20 };

/* Process k of the ring; 0: it received its predecessor's message. */
static int exchange_in_ring(struct sim_wire *wires, int k)
{
    unsigned char *from = bytes_of(LONG, (unsigned)k), *to = malloc(LONG);
    unsigned char *before = bytes_of(LONG, (unsigned)(k + RING - 1) % RING);
    double seconds;

    for (int other = 0; other < RING; other++)
        if (other != k)
            sim_wire_close(&wires[other]);
    for (int i = 0; i < 3; i++)
        if (sim_wire_exchange(&wires[k], from, to, LONG, &seconds, &e) < 0 || memcmp(to, before, LONG) != 0)
            return 1;
    free(from);
    free(to);
    free(before);
    return 0;
}

TEST(in_a_ring_each_node_receives_from_the_previous_one_and_its_end_is_detected)
{
    struct sim_wire wires[RING];
    double seconds;
    char byte = 0;

    assert_ok(sim_ring_open(wires, RING, &e));
    for (int k = 1; k < RING; k++)
        if (fork() == 0)
            _exit(exchange_in_ring(wires, k));
    assert_int_equal(exchange_in_ring(wires, 0), 0);
    for (int k = 1; k < RING; k++) {
        int status;

        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_equal(sim_wire_exchange(&wires[0], &byte, &byte, 1, &seconds, &e), ERR_IO);
    sim_wire_close(&wires[0]);
}

TEST(a_missing_socket_is_reported_with_the_option_that_avoids_it)
{
    struct rlimit was, none;
    struct sim_wire own;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = was;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(sim_ring_open(&own, 1, &e), ERR_IO);
    setrlimit(RLIMIT_NOFILE, &was);
    assert_non_null(strstr(e.hint, "--overhead"));
    assert_true(own.out < 0 && own.in < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_of_any_length_arrives_unchanged_and_is_timed),
        cmocka_unit_test(in_a_ring_each_node_receives_from_the_previous_one_and_its_end_is_detected),
        cmocka_unit_test(a_missing_socket_is_reported_with_the_option_that_avoids_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
