#include "runner/executor/mailbox.h"

#include "codecs/executor.h"
#include "tests/unit/unit.h"

static struct err e;

static unsigned char piece[MAILBOX_HEAD + MAILBOX_PIECE + 1];

/* A piece that claims to begin the last `left` bytes of a message, and has k. */
static int take_in(struct mailbox *b, uint64_t left, size_t k)
{
    struct wire_in in = {.bytes = piece, .len = MAILBOX_HEAD + k};

    memcpy(piece, &left, sizeof left);
    return mailbox_take_in(b, &in, &e);
}

/* Sends n bytes from one end to the other. */
static void carry(struct mailbox *b, const char *bytes, size_t n)
{
    size_t at = 0;

    do {
        struct wire_out out = {.bytes = piece, .limit = MAILBOX_HEAD + MAILBOX_PIECE};
        struct wire_in in;

        at += mailbox_put(&out, bytes + at, n - at);
        assert_false(out.bad);
        in = (struct wire_in){.bytes = piece, .len = out.len};
        assert_ok(mailbox_take_in(b, &in, &e));
    } while (at < n);
}

TEST(messages_of_any_length_arrive_whole_and_in_order)
{
    static const size_t lengths[] = {0, 1, MAILBOX_PIECE - 1, MAILBOX_PIECE, MAILBOX_PIECE + 1, 0, 900001};
    struct mailbox b = {0};
    char *bytes = malloc(900001);

    assert_non_null(bytes);
    for (size_t i = 0; i < 900001; i++)
        bytes[i] = (char)(i * 31 / 7);
    for (size_t i = 0; i < N_OF(lengths); i++)
        carry(&b, bytes, lengths[i]);
    for (size_t i = 0; i < N_OF(lengths); i++) {
        struct mailbox_message *m = mailbox_next(&b);

        assert_non_null(m);
        assert_int_equal(m->n, lengths[i]);
        assert_memory_equal(m->bytes, bytes, m->n);
        free(m);
    }
    assert_null(mailbox_next(&b));
    carry(&b, bytes, 5); /* after it was empty */
    mailbox_clear(&b);   /* with a message in it */
    free(bytes);
}

TEST(a_piece_that_no_sender_writes_is_refused)
{
    static const struct {
        uint64_t first, left;
        size_t k;
    } cases[] = {
        {0, 5, 4},                                                       /* too short */
        {0, 5, 6},                                                       /* too long */
        {0, MAILBOX_PIECE + 1, MAILBOX_PIECE - 1},                       /* not full, and not the last */
        {0, (uint64_t)EXECUTOR_MESSAGE_MAX + 1, MAILBOX_PIECE},          /* longer than any message */
        {0, UINT64_MAX, MAILBOX_PIECE},                                  /* the same, at the edge */
        {3 * (uint64_t)MAILBOX_PIECE, 3 * MAILBOX_PIECE, MAILBOX_PIECE}, /* the first piece again */
        {3 * (uint64_t)MAILBOX_PIECE, 5, 5},                             /* another message's */
    };
    struct wire_in cut = {.bytes = piece, .len = MAILBOX_HEAD - 1};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct mailbox b = {0};

        if (cases[i].first)
            assert_ok(take_in(&b, cases[i].first, MAILBOX_PIECE));
        assert_int_equal(take_in(&b, cases[i].left, cases[i].k), ERR_PROTOCOL);
        assert_null(mailbox_next(&b));
        mailbox_clear(&b);
    }
    assert_int_equal(mailbox_take_in(&(struct mailbox){0}, &cut, &e), ERR_PROTOCOL);
}

TEST(a_claimed_length_allocates_nothing_before_its_bytes_arrive)
{
    struct mailbox b = {0};

    assert_ok(take_in(&b, EXECUTOR_MESSAGE_MAX, MAILBOX_PIECE));
    assert_int_equal(b.room, MAILBOX_PIECE);
    mailbox_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_any_length_arrive_whole_and_in_order),
        cmocka_unit_test(a_piece_that_no_sender_writes_is_refused),
        cmocka_unit_test(a_claimed_length_allocates_nothing_before_its_bytes_arrive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
