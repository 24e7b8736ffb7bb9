#include "tests/unit/unit.h"

#include "runner/mesh/frame.h"

TEST(a_frame_survives_serialization)
{
    struct frame f = {.kind = FRAME_REPLY,
                      .job = 0x1122334455667788u,
                      .attempt = 7,
                      .from = -3,
                      .to = 4,
                      .channel = 9,
                      .index = 11,
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

TEST(every_flipped_bit_of_a_header_is_detected)
{
    struct frame f = {.kind = FRAME_CONTRIBUTION, .job = 5, .attempt = 1, .to = 1, .len = 8};
    uint8_t bytes[FRAME_BYTES];
    struct err e = {0};

    for (int bit = 0; bit < 8 * FRAME_BYTES; bit++) {
        struct frame g;

        frame_pack(bytes, &f);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(frame_unpack(&g, bytes, &e), ERR_PROTOCOL);
    }
}

TEST(a_flag_is_valid_for_some_frame_kinds_only)
{
    for (int kind = FRAME_HELLO; kind < FRAME_KINDS; kind++)
        for (int flag = 1; flag <= 2; flag++) {
            struct frame f = {.kind = (enum frame_kind)kind,
                              .wants_tls = flag == 1,
                              .is_descriptor = flag == 2},
                         g;
            bool is_right = flag == 1 ? kind == FRAME_HELLO
                                      : (kind >= FRAME_CONTRIBUTION && kind <= FRAME_EVENT) ||
                                            kind == FRAME_BARRIER;
            uint8_t bytes[FRAME_BYTES];
            struct err e = {0};

            frame_pack(bytes, &f);
            assert_int_equal(frame_unpack(&g, bytes, &e), is_right ? 0 : ERR_PROTOCOL);
            assert_true(!is_right || (g.wants_tls == f.wants_tls && g.is_descriptor == f.is_descriptor));
        }
}

TEST(a_descriptor_is_an_offset_and_a_length_in_little_endian)
{
    static const uint8_t bytes[FRAME_DESCRIPTOR_BYTES] = {8, 7, 6, 5, 4, 3, 2, 1, 0xff, 0xee};
    uint8_t again[FRAME_DESCRIPTOR_BYTES];
    uint64_t offset, len;

    frame_descriptor_unpack(bytes, &offset, &len);
    assert_true(offset == 0x0102030405060708u && len == 0xeeff);
    frame_descriptor_pack(again, offset, len);
    assert_memory_equal(again, bytes, sizeof bytes);
}

TEST(another_protocol_version_is_refused_naming_both)
{
    struct frame f = {.kind = FRAME_CONTRIBUTION}, g;
    uint8_t bytes[FRAME_BYTES];
    struct err e = {0};

    frame_pack(bytes, &f);
    bytes[4] = 10;
    assert_int_equal(frame_unpack(&g, bytes, &e), ERR_PROTOCOL);
    assert_error_has("version 10");
    assert_error_has("version 9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_survives_serialization),
        cmocka_unit_test(every_flipped_bit_of_a_header_is_detected),
        cmocka_unit_test(a_flag_is_valid_for_some_frame_kinds_only),
        cmocka_unit_test(a_descriptor_is_an_offset_and_a_length_in_little_endian),
        cmocka_unit_test(another_protocol_version_is_refused_naming_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
