#include "shared/base/crypto.h"

#include <sys/stat.h>

#include "tests/unit/unit.h"

static void assert_hex(const uint8_t sum[SHA256_BYTES], const char *expected)
{
    char hex[SHA256_HEX];

    hex_encode(hex, sum, SHA256_BYTES);
    assert_string_equal(hex, expected);
}

TEST(sha256_matches_fips_180)
{
    uint8_t sum[SHA256_BYTES];

    sha256(sum, "", 0);
    assert_hex(sum, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256(sum, "abc", 3);
    assert_hex(sum, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(a_digest_over_chunks_equals_that_over_the_whole)
{
    struct sha256_sum *s = sha256_start();
    uint8_t sum[SHA256_BYTES];
    char chunk[1000];

    memset(chunk, 'a', sizeof chunk);
    for (int i = 0; i < 1000; i++)
        sha256_add(s, chunk, sizeof chunk);
    sha256_end(s, sum);
    assert_hex(sum, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    sha256_end(sha256_start(), NULL);
    sha256_end(NULL, sum);
}

TEST(hmac_matches_rfc_4231)
{
    uint8_t key[20], sum[SHA256_BYTES];

    memset(key, 0x0b, sizeof key);
    hmac_sha256(sum, key, sizeof key, "Hi There", 8);
    assert_hex(sum, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    hmac_sha256(sum, (const uint8_t *)"Jefe", 4, "what do ya want for nothing?", 28);
    assert_hex(sum, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(hkdf_matches_rfc_5869)
{
    static const struct {
        size_t key, salt, info, len; /* bytes of each */
        const char *expected;
    } cases[] = {
        {22, 13, 10, 42,
         "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
        {80, 80, 80, 82,
         "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3"
         "2"
         "75600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"},
        {22, 0, 0, 42,
         "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        uint8_t key[80], salt[80], info[80], out[82];
        char hex[2 * sizeof out + 1];

        for (int k = 0; k < 80; k++) {
            key[k] = (uint8_t)(cases[i].key == 22 ? 0x0b : k);
            salt[k] = (uint8_t)(cases[i].key == 22 ? k : 0x60 + k);
            info[k] = (uint8_t)(cases[i].key == 22 ? 0xf0 + k : 0xb0 + k);
        }
        hkdf_sha256(out, cases[i].len, key, cases[i].key, salt, cases[i].salt, info, cases[i].info);
        hex_encode(hex, out, cases[i].len);
        assert_string_equal(hex, cases[i].expected);
    }
}

TEST(a_file_has_the_digest_of_its_bytes)
{
    const char *dir = unit_folder();
    uint8_t sum[SHA256_BYTES];
    char path[256];
    uint64_t n;
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "abc", &e));
    assert_ok(file_write(path, "abc", 3, 0600, &e));
    assert_ok(sha256_file(sum, &n, path, &e));
    assert_int_equal(n, 3);
    assert_hex(sum, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_ok(file_join(path, sizeof path, dir, "none", &e));
    assert_int_equal(sha256_file(sum, &n, path, &e), ERR_NOT_FOUND);
    assert_int_equal(mkfifo(path, 0600), 0); /* opening it would wait for a writer */
    assert_int_equal(sha256_file(sum, &n, path, &e), ERR_IO);
    assert_int_equal(sha256_file(sum, &n, "/dev/zero", &e), ERR_IO);
    assert_error_has("/dev/zero: not a regular file");
    unit_remove(dir);
}

TEST(hex_is_decoded_and_anything_else_refused)
{
    static const char *const bad[] = {"",           "00",       "00ff7",    "00ff7f0",
                                      "00ff7f00ff", "00FF7f00", "00fg7f00", "00 f7f00"};
    const uint8_t bytes[4] = {0, 255, 127, 16};
    uint8_t back[4];
    char hex[9];

    hex_encode(hex, bytes, 4);
    assert_string_equal(hex, "00ff7f10");
    assert_true(hex_decode(back, 4, hex));
    assert_memory_equal(back, bytes, 4);
    for (size_t i = 0; i < N_OF(bad); i++)
        assert_false(hex_decode(back, 4, bad[i]));
}

TEST(random_bytes_differ_from_call_to_call)
{
    uint8_t a[32], b[32];

    random_bytes(a, sizeof a);
    random_bytes(b, sizeof b);
    assert_false(equal_in_constant_time(a, b, sizeof a));
    assert_true(equal_in_constant_time(a, a, sizeof a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_matches_fips_180),
        cmocka_unit_test(a_digest_over_chunks_equals_that_over_the_whole),
        cmocka_unit_test(hmac_matches_rfc_4231),
        cmocka_unit_test(hkdf_matches_rfc_5869),
        cmocka_unit_test(a_file_has_the_digest_of_its_bytes),
        cmocka_unit_test(hex_is_decoded_and_anything_else_refused),
        cmocka_unit_test(random_bytes_differ_from_call_to_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
