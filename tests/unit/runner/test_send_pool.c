/* send_pool: valid positions of messages, and their copies. */
#include "runner/shm/send_pool.h"

#include "tests/lib/rendezvous_pair.h"
#include "tests/unit/unit.h"

enum { LIMIT = 100 };

static const void *read_descriptor(uint64_t offset, uint64_t len, struct sealed s, size_t limit)
{
    uint8_t descriptor[FRAME_DESCRIPTOR_BYTES];
    size_t n = 99;
    const void *at;

    frame_descriptor_pack(descriptor, offset, len);
    at = send_pool_find(descriptor, s, limit, &n);
    assert_int_equal(n, at ? len : 99);
    return at;
}

TEST(a_descriptor_is_read_only_if_its_whole_message_fits_the_pool)
{
    static unsigned char bytes[50];
    struct sealed s = {bytes, sizeof bytes}, none = {0};

    assert_ptr_equal(read_descriptor(0, 50, s, 50), bytes);
    assert_ptr_equal(read_descriptor(49, 1, s, 50), bytes + 49);
    assert_ptr_equal(read_descriptor(50, 0, s, 50), bytes + 50);
    assert_null(read_descriptor(0, 50, s, 49));
    assert_null(read_descriptor(0, 51, s, 100));
    assert_null(read_descriptor(50, 1, s, 50));
    assert_null(read_descriptor(51, 0, s, 50));
    assert_null(read_descriptor(1, 50, s, 50));
    assert_null(read_descriptor(1, UINT64_MAX, s, SIZE_MAX));
    assert_null(read_descriptor(UINT64_MAX, 1, s, 50));
    assert_null(read_descriptor(0, 1, none, 50));
}

TEST(a_descriptor_locates_the_message_for_its_reader)
{
    static const unsigned char mine[64] = {0}, theirs[64] = {0};
    uint8_t descriptor[FRAME_DESCRIPTOR_BYTES];
    size_t len;

    send_pool_describe(descriptor, (struct sealed){(void *)(uintptr_t)mine, sizeof mine}, mine + 17, 30);
    assert_ptr_equal(
        send_pool_find(descriptor, (struct sealed){(void *)(uintptr_t)theirs, sizeof theirs}, 64, &len),
        theirs + 17);
    assert_int_equal(len, 30);
}

static struct mesh_buf *message(struct mesh *m, int first)
{
    struct mesh_buf *b = mesh_buf_take(m);

    assert_non_null(b);
    b->len = LIMIT;
    for (int i = 0; i < LIMIT; i++)
        b->bytes[i] = (unsigned char)(first + i);
    return b;
}

TEST(a_message_has_one_copy_in_the_pool_while_it_is_referenced)
{
    struct mesh_pool pool = {.limit = LIMIT};
    struct mesh m = {.pool = &pool};
    struct mesh_buf *b[SEND_POOL_SLOTS + 1], *copies[SEND_POOL_SLOTS];
    struct rendezvous_pair joined;
    struct send_pool *s;
    struct sealed all;
    struct err e;

    rendezvous_pair_open(&joined, send_pool_bytes(LIMIT, 2), send_pool_bytes(LIMIT, 2));
    rendezvous_pair_join(&joined);
    assert_ok(send_pool_open(&s, joined.m[0], LIMIT, &e));
    all = send_pool_memory(s, 0);
    for (int i = 0; i < SEND_POOL_SLOTS; i++) {
        b[i] = message(&m, i);
        copies[i] = send_pool_copy(s, b[i]);
        assert_ptr_equal(send_pool_copy(s, b[i]), copies[i]);
        mesh_buf_put(copies[i]);
        assert_in_range((uintptr_t)copies[i]->bytes, (uintptr_t)all.start,
                        (uintptr_t)all.start + all.size - LIMIT);
        assert_int_equal(copies[i]->len, LIMIT);
    }
    for (int i = 0; i < SEND_POOL_SLOTS; i++)
        assert_memory_equal(copies[i]->bytes, b[i]->bytes, LIMIT);
    b[SEND_POOL_SLOTS] = message(&m, 9);
    assert_null(send_pool_copy(s, b[SEND_POOL_SLOTS]));
    mesh_buf_put(copies[2]); /* the message is still there, and waits elsewhere */
    assert_ptr_equal(send_pool_copy(s, b[SEND_POOL_SLOTS]), copies[2]);
    assert_memory_equal(copies[2]->bytes, b[SEND_POOL_SLOTS]->bytes, LIMIT);
    assert_null(send_pool_copy(s, b[2]));
    mesh_buf_put(b[3]); /* and vice versa */
    assert_memory_equal(copies[3]->bytes, b[3]->bytes, LIMIT);
    for (int i = 0; i < SEND_POOL_SLOTS; i++)
        mesh_buf_put(copies[i]);
    for (int i = 0; i <= SEND_POOL_SLOTS; i++)
        if (i != 3)
            mesh_buf_put(b[i]);
    mesh_pool_clear(&pool);
    send_pool_close(s);
    rendezvous_close(joined.m[1]);
}

TEST(a_pool_too_large_to_count_has_no_size)
{
    assert_int_equal(send_pool_bytes(SIZE_MAX, 2), 0);
    assert_int_equal(send_pool_bytes(SIZE_MAX / 2, 1), 0);
    assert_int_equal(send_pool_bytes(63, 2), (size_t)SEND_POOL_SLOTS * 64);
    assert_int_equal(send_pool_bytes(63, 1), (size_t)SEND_POOL_DESCRIPTORS_MAX * 64);
}

TEST(memory_of_a_peer_may_be_larger_in_proportion_to_its_messages)
{
    size_t own = 1064, largest = 64 + 400 * 1000;

    assert_int_equal(send_pool_most_bytes(63, 1), (size_t)4 * SEND_POOL_SLOTS * 64);
    assert_true(send_pool_most_bytes(own, 400) >= send_pool_bytes(largest, 2));
    assert_true(send_pool_most_bytes(own, 1) < send_pool_bytes(largest, 1));
    assert_true(send_pool_most_bytes(own, SIZE_MAX) == SIZE_MAX / 4);
    assert_true(send_pool_most_bytes(SIZE_MAX, 1) == SIZE_MAX / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_descriptor_is_read_only_if_its_whole_message_fits_the_pool),
        cmocka_unit_test(a_descriptor_locates_the_message_for_its_reader),
        cmocka_unit_test(a_message_has_one_copy_in_the_pool_while_it_is_referenced),
        cmocka_unit_test(a_pool_too_large_to_count_has_no_size),
        cmocka_unit_test(memory_of_a_peer_may_be_larger_in_proportion_to_its_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
