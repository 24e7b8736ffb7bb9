#include "tests/unit/unit.h"

#include "agent/runner/frame.h"

TEST(a_frame_survives_packing)
{
    struct frame f = {.kind = FRAME_REPLY,
                      .job = 0x1122334455667788u,
                      .attempt = 7,
                      .from = -3,
                      .to = 4,
                      .channel = 9,
                      .word = 11,
                      .round = 1ull << 40,
                      .len = 123456789,
                      .seq = 0xfffffffe,
                      .ack = 77,
                      .crc = 0xdeadbeef};
    struct frame g;
    uint8_t bytes[FRAME_BYTES], again[FRAME_BYTES];
    struct err e = {0};

    frame_pack(bytes, &f);
    assert_ok(frame_unpack(&g, bytes, &e));
    assert_int_equal(g.from, -3);
    assert_int_equal(g.len, 123456789);
    assert_int_equal(g.seq, 0xfffffffe);
    assert_int_equal(g.ack, 77);
    frame_pack(again, &g);
    assert_memory_equal(bytes, again, sizeof bytes);
}

TEST(every_flipped_bit_of_a_header_is_noticed)
{
    struct frame f = {.kind = FRAME_WORD, .job = 5, .attempt = 1, .to = 1, .len = 8};
    uint8_t bytes[FRAME_BYTES];
    struct err e = {0};

    for (int bit = 0; bit < 8 * FRAME_BYTES; bit++) {
        struct frame g;

        frame_pack(bytes, &f);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(frame_unpack(&g, bytes, &e), ERR_PROTOCOL);
    }
}

TEST(another_version_is_refused_naming_both)
{
    struct frame f = {.kind = FRAME_WORD}, g;
    uint8_t bytes[FRAME_BYTES];
    struct err e = {0};

    frame_pack(bytes, &f);
    bytes[4] = 9;
    assert_int_equal(frame_unpack(&g, bytes, &e), ERR_PROTOCOL);
    assert_says("version 9");
    assert_says("version 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_survives_packing),
        cmocka_unit_test(every_flipped_bit_of_a_header_is_noticed),
        cmocka_unit_test(another_version_is_refused_naming_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
