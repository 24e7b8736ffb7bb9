#include "shared/crc32c.h"

#include "tests/unit/unit.h"

/* RFC 3720, appendix B.4, and the check value of the catalogue of CRCs. */
TEST(the_published_vectors_hold)
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_published_vectors_hold)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
