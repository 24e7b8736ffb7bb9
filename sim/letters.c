#include "sim/letters.h"

#include <stdalign.h>
#include <stdlib.h>

enum { AT_ONCE = 256, CACHE_LINE = 64 };

struct place {
    alignas(CACHE_LINE) struct sim_letter letter;
};

struct sim_letters_block {
    struct place places[AT_ONCE];
    struct sim_letters_block *next;
};

static int make_block(struct sim_letters *l, struct err *e)
{
    struct sim_letters_block *b = aligned_alloc(CACHE_LINE, sizeof *b);

    if (!b)
        return err_set(e, ERR_NOMEM, "no memory for a message");
    b->next = l->blocks;
    l->blocks = b;
    for (int i = AT_ONCE - 1; i >= 0; i--) {
        b->places[i].letter = (struct sim_letter){.next = l->free};
        l->free = &b->places[i].letter;
    }
    return 0;
}

struct sim_letter *sim_letter_take(struct sim_letters *l, struct err *e)
{
    struct sim_letter *letter;

    if (!l->free && make_block(l, e) < 0)
        return NULL;
    letter = l->free;
    l->free = letter->next;
    __builtin_prefetch(l->free, 1);
    return letter;
}

void sim_letter_put(struct sim_letters *l, struct sim_letter *letter)
{
    mesh_buf_put(l->lender, letter->buf);
    letter->buf = NULL;
    letter->next = l->free;
    l->free = letter;
}

void sim_letters_clear(struct sim_letters *l)
{
    for (struct sim_letters_block *b = l->blocks, *next; b; b = next) {
        for (int i = 0; i < AT_ONCE; i++)
            mesh_buf_put(l->lender, b->places[i].letter.buf);
        next = b->next;
        free(b);
    }
    *l = (struct sim_letters){0};
}
