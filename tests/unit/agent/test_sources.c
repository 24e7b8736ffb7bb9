#include "agent/http/sources.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/unit/unit.h"

static struct source source(uint32_t v4, int64_t uid)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(v4)};
    struct source s;

    source_of(&s, (struct sockaddr *)&at);
    s.uid = uid;
    return s;
}

TEST(failures_beyond_ten_double_the_time_up_to_ten_minutes_and_expire)
{
    static const int slowed_s[] = {15, 30, 60, 120, 240, 480, 600, 600};
    struct source s = source(0x0a000007, UID_UNKNOWN), other = source(0x0a000008, UID_UNKNOWN);
    struct sources *t = sources_new();
    double now = 1000;

    assert_non_null(t);
    for (int i = 1; i < FAILURES_FREE; i++)
        sources_failed(t, &s, now);
    assert_int_equal(sources_slowed_s(t, &s, now), 0);
    for (size_t i = 0; i < N_OF(slowed_s); i++) {
        sources_failed(t, &s, now);
        assert_int_equal(sources_slowed_s(t, &s, now), slowed_s[i]);
        assert_int_equal(sources_slowed_s(t, &s, now + slowed_s[i] - 0.5), 1);
        assert_int_equal(sources_slowed_s(t, &other, now), 0);
        now += slowed_s[i];
        assert_int_equal(sources_slowed_s(t, &s, now), 0);
    }
    now += 601;
    sources_failed(t, &s, now);
    assert_int_equal(sources_slowed_s(t, &s, now), 0);
    sources_free(t);
}

TEST(users_of_one_address_are_sources_of_their_own_and_a_log_line_is_due_once_a_second)
{
    struct source a = source(0x7f000001, 1000), b = source(0x7f000001, 1001);
    struct sources *t = sources_new();

    for (int i = 0; i < FAILURES_FREE; i++)
        sources_failed(t, &a, 5);
    assert_int_equal(sources_slowed_s(t, &a, 5), 15);
    assert_int_equal(sources_slowed_s(t, &b, 5), 0);
    assert_true(sources_may_log(t, &a, 5));
    assert_false(sources_may_log(t, &a, 5.9));
    assert_true(sources_may_log(t, &b, 5.9));
    assert_true(sources_may_log(t, &a, 6));
    assert_int_equal(sources_slowed_s(t, &a, 6), 14);
    sources_free(t);
}

TEST(more_sources_than_places_replace_those_that_failed_longest_ago)
{
    struct source last = source(0x0a000001, UID_UNKNOWN);
    struct sources *t = sources_new();
    unsigned n_kept = 0;

    for (uint32_t i = 0; i < 4 * SOURCES_MAX; i++) {
        struct source s = source(0x0b000000 + i, UID_UNKNOWN);

        for (int k = 0; k < FAILURES_FREE; k++)
            sources_failed(t, &s, 1 + 1e-4 * i);
    }
    for (int k = 0; k < FAILURES_FREE; k++)
        sources_failed(t, &last, 3);
    assert_true(sources_slowed_s(t, &last, 3) > 0);
    for (uint32_t i = 0; i < 4 * SOURCES_MAX; i++) {
        struct source s = source(0x0b000000 + i, UID_UNKNOWN);

        n_kept += sources_slowed_s(t, &s, 3) > 0;
    }
    assert_in_range(n_kept, SOURCES_MAX / 2, SOURCES_MAX);
    sources_free(t);
}

TEST(an_IPv6_source_is_a_network_of_64_bits_and_a_mapped_address_is_that_of_IPv4)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6}, b = a, mapped = a;
    struct source x, y, v4 = source(0x0a000007, UID_UNKNOWN);

    inet_pton(AF_INET6, "2001:db8:1:2::1", &a.sin6_addr);
    inet_pton(AF_INET6, "2001:db8:1:2:3:4:5:6", &b.sin6_addr);
    source_of(&x, (struct sockaddr *)&a);
    source_of(&y, (struct sockaddr *)&b);
    assert_true(source_is(&x, &y));
    inet_pton(AF_INET6, "2001:db8:1:3::1", &b.sin6_addr);
    source_of(&y, (struct sockaddr *)&b);
    assert_false(source_is(&x, &y));
    inet_pton(AF_INET6, "::ffff:10.0.0.7", &mapped.sin6_addr);
    source_of(&y, (struct sockaddr *)&mapped);
    assert_true(source_is(&y, &v4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_beyond_ten_double_the_time_up_to_ten_minutes_and_expire),
        cmocka_unit_test(users_of_one_address_are_sources_of_their_own_and_a_log_line_is_due_once_a_second),
        cmocka_unit_test(more_sources_than_places_replace_those_that_failed_longest_ago),
        cmocka_unit_test(an_IPv6_source_is_a_network_of_64_bits_and_a_mapped_address_is_that_of_IPv4),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
