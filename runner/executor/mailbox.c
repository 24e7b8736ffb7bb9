#include "runner/executor/mailbox.h"

#include <stdlib.h>
#include <string.h>

#include "codecs/executor.h"

size_t mailbox_put(struct wire_out *out, const char *bytes, size_t n)
{
    size_t k = n < MAILBOX_PIECE ? n : MAILBOX_PIECE;
    uint64_t left = n;
    void *head = wire_put(out, 1, MAILBOX_HEAD), *body = wire_put(out, k, 1);

    if (head && body) {
        memcpy(head, &left, sizeof left);
        memcpy(body, bytes, k);
    }
    return k;
}

/* Makes room for `more` bytes behind those that have arrived. */
static int grow_partial(struct mailbox *b, size_t more, struct err *e)
{
    size_t n = b->partial ? b->partial->n : 0, room = b->room;
    struct mailbox_message *grown;

    if (b->partial && room - n >= more)
        return 0;
    room = room < n + more ? n + more : room;
    room = room < 2 * n ? 2 * n : room;
    room = room > n + b->left ? n + b->left : room; /* not more than the whole message */
    grown = realloc(b->partial, sizeof *grown + room);
    if (!grown)
        return err_set(e, ERR_NOMEM, "no memory for a message of %zu bytes", n + b->left);
    grown->n = n;
    b->partial = grown;
    b->room = room;
    return 0;
}

static void finish_message(struct mailbox *b)
{
    b->partial->next = NULL;
    if (!b->first)
        b->end = &b->first;
    *b->end = b->partial;
    b->end = &b->partial->next;
    b->partial = NULL;
    b->room = 0;
}

int mailbox_take_in(struct mailbox *b, struct wire_in *in, struct err *e)
{
    const void *head = wire_get(in, 1, MAILBOX_HEAD), *bytes;
    uint64_t left = 0;
    size_t k;

    if (head)
        memcpy(&left, head, sizeof left);
    k = left < MAILBOX_PIECE ? (size_t)left : MAILBOX_PIECE;
    bytes = wire_get(in, k, 1);
    if (!wire_ok(in) || left > EXECUTOR_MESSAGE_MAX || (b->partial && left != b->left))
        return err_set(e, ERR_PROTOCOL, "it sent a malformed piece of a message");
    b->left = (size_t)left;
    if (grow_partial(b, k, e) < 0)
        return e->code;
    memcpy(b->partial->bytes + b->partial->n, bytes, k);
    b->partial->n += k;
    b->left -= k;
    b->n_pieces++;
    if (b->left == 0)
        finish_message(b);
    return 0;
}

struct mailbox_message *mailbox_next(struct mailbox *b)
{
    struct mailbox_message *m = b->first;

    if (m)
        b->first = m->next;
    return m;
}

void mailbox_clear(struct mailbox *b)
{
    struct mailbox_message *m;

    while ((m = mailbox_next(b)) != NULL)
        free(m);
    free(b->partial);
    *b = (struct mailbox){0};
}
