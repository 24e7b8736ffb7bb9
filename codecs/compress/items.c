#include "codecs/compress/items.h"

#include <stdlib.h>

enum { BYTE = 256 };

static int items_alphabet(const struct items *s)
{
    return s->values->item_bytes > 0 ? BYTE : s->values->alphabet(s->options);
}

/* True where items have the same form on the wire and in memory. */
static bool is_plain(const struct items *s)
{
    return !s->coder && items_alphabet(s) == BYTE;
}

static size_t bytes_of_item(const struct items *s)
{
    return s->values->item_bytes > 0 ? s->values->item_bytes : 1;
}

int items_open(struct items *s, size_t n, struct err *e)
{
    if (is_plain(s))
        return 0;
    s->symbols = calloc(n + 1, 1);
    if (s->values->item_bytes > 0)
        s->numbers = calloc(n + 1, s->values->item_bytes);
    if (!s->symbols || (s->values->item_bytes > 0 && !s->numbers))
        return err_set(e, ERR_NOMEM, "no memory for the symbols of %zu values", n);
    return 0;
}

void items_clear(struct items *s)
{
    free(s->symbols);
    free(s->numbers);
    s->symbols = s->numbers = NULL;
}

size_t items_most_bytes(const struct items *s, size_t n)
{
    return bytes_of_item(s) *
           (s->coder ? s->coder->most_bytes(n, items_alphabet(s)) : packed_bytes(n, items_alphabet(s)));
}

void *items_room(struct items *s, struct wire_out *out, size_t n)
{
    if (is_plain(s))
        return wire_put(out, n, bytes_of_item(s));
    return s->values->item_bytes > 0 ? s->numbers : s->symbols;
}

void items_put(struct items *s, struct compress_work *w, struct wire_out *out, size_t n)
{
    size_t size = s->values->item_bytes;
    uint8_t *packed;

    if (is_plain(s))
        return;
    if (!s->coder) {
        packed = wire_put(out, packed_bytes(n, items_alphabet(s)), 1);
        if (packed)
            w->loops->pack(packed, s->symbols, n, items_alphabet(s));
        return;
    }
    if (size == 0)
        s->coder->put(w, out, s->symbols, n, items_alphabet(s));
    for (size_t byte = 0; byte < size; byte++) {
        for (size_t i = 0; i < n; i++)
            s->symbols[i] = s->numbers[i * size + byte];
        s->coder->put(w, out, s->symbols, n, BYTE);
    }
}

static const void *get_coded(struct items *s, struct compress_work *w, struct wire_in *in, size_t n)
{
    size_t size = s->values->item_bytes;

    if (size == 0)
        return s->coder->get(w, in, s->symbols, n, items_alphabet(s)) ? s->symbols : NULL;
    for (size_t byte = 0; byte < size; byte++) {
        if (!s->coder->get(w, in, s->symbols, n, BYTE))
            return NULL;
        for (size_t i = 0; i < n; i++)
            s->numbers[i * size + byte] = s->symbols[i];
    }
    return s->numbers;
}

const void *items_get(struct items *s, struct compress_work *w, struct wire_in *in, size_t n)
{
    const void *bytes;

    if (s->coder)
        return get_coded(s, w, in, n);
    if (is_plain(s))
        return wire_get(in, n, bytes_of_item(s));
    bytes = wire_get(in, packed_bytes(n, items_alphabet(s)), 1);
    if (!bytes)
        return NULL;
    w->loops->unpack(s->symbols, bytes, n, items_alphabet(s));
    return w->loops->largest_symbol(s->symbols, n) < items_alphabet(s) ? s->symbols : NULL;
}
