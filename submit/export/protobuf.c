#include "submit/export/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, EIGHT_BYTES = 1, LENGTH = 2, FOUR_BYTES = 5, VARINT_MAX = 10 };

void protobuf_clear(struct protobuf *p)
{
    free(p->bytes);
    *p = (struct protobuf){0};
}

static void put_bytes(struct protobuf *p, const void *bytes, size_t len)
{
    size_t need, cap = p->cap ? p->cap : 256;

    if (p->failed || __builtin_add_overflow(p->len, len, &need) || need > SIZE_MAX / 2) {
        p->failed = true;
        return;
    }
    while (cap < need)
        cap *= 2;
    if (cap > p->cap) {
        unsigned char *more = realloc(p->bytes, cap);

        if (!more) {
            p->failed = true;
            return;
        }
        p->bytes = more;
        p->cap = cap;
    }
    if (len > 0)
        memcpy(p->bytes + p->len, bytes, len);
    p->len = need;
}

/* Seven bits per byte, lowest first; a negative number takes ten bytes. */
static void put_varint(struct protobuf *p, uint64_t v)
{
    unsigned char bytes[VARINT_MAX];
    size_t n = 0;

    for (; v > 127; v >>= 7)
        bytes[n++] = (unsigned char)(v | 128);
    bytes[n++] = (unsigned char)v;
    put_bytes(p, bytes, n);
}

static void put_tag(struct protobuf *p, int field, int wire_type)
{
    put_varint(p, (uint64_t)field << 3 | (uint64_t)wire_type);
}

void protobuf_int(struct protobuf *p, int field, int64_t value)
{
    put_tag(p, field, VARINT);
    put_varint(p, (uint64_t)value);
}

void protobuf_float(struct protobuf *p, int field, float value)
{
    put_tag(p, field, FOUR_BYTES);
    put_bytes(p, &value, sizeof value);
}

void protobuf_double(struct protobuf *p, int field, double value)
{
    put_tag(p, field, EIGHT_BYTES);
    put_bytes(p, &value, sizeof value);
}

void protobuf_bytes(struct protobuf *p, int field, const void *bytes, size_t len)
{
    put_tag(p, field, LENGTH);
    put_varint(p, len);
    put_bytes(p, bytes, len);
}

void protobuf_text(struct protobuf *p, int field, const char *text)
{
    protobuf_bytes(p, field, text, strlen(text));
}

void protobuf_message(struct protobuf *p, int field, struct protobuf *take)
{
    protobuf_bytes(p, field, take->bytes, take->len);
    p->failed |= take->failed;
    protobuf_clear(take);
}

void protobuf_append(struct protobuf *p, struct protobuf *take)
{
    put_bytes(p, take->bytes, take->len);
    p->failed |= take->failed;
    protobuf_clear(take);
}
