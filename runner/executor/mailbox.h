/* mailbox -- the messages of one node to an executor, put together from the pieces in which they arrive.
 *
 * A piece is a message of the mesh: 8 bytes, the length of the executor's message from this piece on,
 * and then at most MAILBOX_PIECE bytes of it. All pieces but a message's last are full. */
#ifndef PSGD_MAILBOX_H
#define PSGD_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "codecs/wire.h"
#include "shared/base/err.h"

enum { MAILBOX_PIECE = 256 * 1024, MAILBOX_HEAD = 8 };

struct mailbox_message {
    struct mailbox_message *next;
    size_t n;
    char bytes[];
};

struct mailbox { /* {0}: empty */
    struct mailbox_message *first, **end;
    /* The message that is not complete; its n: the bytes that have arrived. NULL: the next piece begins
     * one. */
    struct mailbox_message *partial;
    size_t room, left; /* of `partial`: bytes allocated, and bytes that are missing */
    uint64_t n_pieces; /* so far */
};

/* Writes the first piece of the message's last n bytes. Returns the bytes in it. */
size_t mailbox_put(struct wire_out *out, const char *bytes, size_t n);
/* Adds a piece, of which no byte is trusted; memory grows as bytes arrive. ERR_PROTOCOL: not a piece that
 * mailbox_put writes, or of a message longer than EXECUTOR_MESSAGE_MAX. ERR_NOMEM. */
int mailbox_take_in(struct mailbox *b, struct wire_in *in, struct err *e);
/* Removes the oldest complete message, which the caller frees; NULL: there is none. */
struct mailbox_message *mailbox_next(struct mailbox *b);
void mailbox_clear(struct mailbox *b);

#endif
