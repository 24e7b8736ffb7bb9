/* Any sequence of pieces of messages: refused, or a message of the length in its first piece. */
#include <stdlib.h>
#include <string.h>

#include "codecs/executor.h"
#include "runner/executor/mailbox.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A piece: two bytes of its length, then that many bytes; where the length is odd, the last is repeated
 * until the piece is full, so that short inputs reach full ones. */
static size_t next_piece(unsigned char out[MAILBOX_HEAD + MAILBOX_PIECE], const uint8_t **data, size_t *size)
{
    size_t n = (size_t)(*data)[0] | (size_t)(*data)[1] << 8, k;

    *data += 2;
    *size -= 2;
    k = n < *size ? n : *size;
    memcpy(out, *data, k);
    *data += k;
    *size -= k;
    if (n % 2 == 0 || k == 0)
        return k;
    memset(out + k, out[k - 1], MAILBOX_HEAD + MAILBOX_PIECE - k);
    return MAILBOX_HEAD + MAILBOX_PIECE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char piece[MAILBOX_HEAD + MAILBOX_PIECE];
    struct mailbox b = {0};
    struct err e;
    uint64_t expected = 0;

    while (size > 2) {
        struct wire_in in = {.bytes = piece, .len = next_piece(piece, &data, &size)};
        struct mailbox_message *m;

        if (!b.partial && in.len >= MAILBOX_HEAD)
            memcpy(&expected, piece, sizeof expected);
        if (mailbox_take_in(&b, &in, &e) < 0)
            break;
        if (b.room > EXECUTOR_MESSAGE_MAX)
            abort();
        m = mailbox_next(&b);
        if (m && m->n != expected)
            abort();
        free(m);
    }
    mailbox_clear(&b);
    return 0;
}
