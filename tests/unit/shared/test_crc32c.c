#include "shared/base/crc32c.h"

#include "tests/unit/unit.h"

/* RFC 3720, appendix B.4, and the check value of the catalogue of CRCs. */
TEST(the_published_vectors_match)
{
    uint8_t bytes[32];

    assert_int_equal(crc32c("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(crc32c(bytes, sizeof bytes), 0x46dd794e);
    assert_int_equal(crc32c(bytes, 0), 0);
}

static uint8_t *some_bytes(size_t n)
{
    uint8_t *bytes = malloc(n);
    uint32_t x = 1;

    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
    return bytes;
}

/* Lengths on both sides of every change of stride, from odd addresses too. */
TEST(all_implementations_agree)
{
    const size_t n = 40000;
    uint8_t *bytes = some_bytes(n);

    for (size_t len = 0; len + 3 <= n; len += len < 1100 ? 1 : 97)
        for (size_t at = 0; at < 3; at++) {
            uint32_t crc = crc32c_by_tables(7, bytes + at, len);

            assert_int_equal(crc32c_by_instruction(7, bytes + at, len), crc);
            assert_int_equal(crc32c_more(7, bytes + at, len), crc);
        }
    free(bytes);
}

TEST(a_checksum_can_be_computed_chunk_by_chunk)
{
    const size_t n = 20000;
    uint8_t *bytes = some_bytes(n);

    for (size_t cut = 0; cut <= n; cut += 501)
        assert_int_equal(crc32c_more(crc32c(bytes, cut), bytes + cut, n - cut), crc32c(bytes, n));
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors_match),
        cmocka_unit_test(all_implementations_agree),
        cmocka_unit_test(a_checksum_can_be_computed_chunk_by_chunk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
