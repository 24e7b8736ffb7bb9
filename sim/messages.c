#include "sim/messages.h"

#include <stdalign.h>
#include <stdlib.h>

enum { AT_ONCE = 256, CACHE_LINE = 64 };

struct message_slot {
    alignas(CACHE_LINE) struct sim_message message;
};

struct sim_messages_block {
    struct message_slot slots[AT_ONCE];
    struct sim_messages_block *next;
};

static int make_block(struct sim_messages *l, struct err *e)
{
    struct sim_messages_block *b = aligned_alloc(CACHE_LINE, sizeof *b);

    if (!b)
        return err_set(e, ERR_NOMEM, "no memory for a message");
    b->next = l->blocks;
    l->blocks = b;
    for (int i = AT_ONCE - 1; i >= 0; i--) {
        b->slots[i].message = (struct sim_message){.next = l->free};
        l->free = &b->slots[i].message;
    }
    return 0;
}

struct sim_message *sim_message_take(struct sim_messages *l, struct err *e)
{
    struct sim_message *message;

    if (!l->free && make_block(l, e) < 0)
        return NULL;
    message = l->free;
    l->free = message->next;
    __builtin_prefetch(l->free, 1);
    return message;
}

void sim_message_put(struct sim_messages *l, struct sim_message *message)
{
    mesh_buf_put(message->buf);
    message->buf = NULL;
    message->next = l->free;
    l->free = message;
}

void sim_messages_clear(struct sim_messages *l)
{
    for (struct sim_messages_block *b = l->blocks, *next; b; b = next) {
        for (int i = 0; i < AT_ONCE; i++)
            mesh_buf_put(b->slots[i].message.buf);
        next = b->next;
        free(b);
    }
    *l = (struct sim_messages){0};
}
