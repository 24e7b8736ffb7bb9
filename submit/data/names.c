#include "submit/data/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/utf8.h"

uint64_t names_hash(const char *text, size_t len)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)text[i]) * 1099511628211u;
    return h;
}

static uint32_t *slot_of(const struct names *s, const char *text, size_t len)
{
    for (size_t k = (size_t)names_hash(text, len);; k++) {
        uint32_t *slot = &s->slots[k & (s->room - 1)];

        if (!*slot || (strncmp(s->at[*slot - 1], text, len) == 0 && !s->at[*slot - 1][len]))
            return slot;
    }
}

int names_take(struct names *out, char *bytes, size_t n, struct err *e)
{
    struct names s = {.n = n, .bytes = bytes, .room = 16};
    const char *text = bytes;

    while (s.room < 2 * n)
        s.room *= 2;
    s.at = calloc(n + 1, sizeof *s.at);
    s.slots = n < UINT32_MAX / 4 ? calloc(s.room, sizeof *s.slots) : NULL;
    if (!s.at || !s.slots) {
        names_clear(&s);
        return err_set(e, ERR_NOMEM, "no memory for %zu names", n);
    }
    for (size_t i = 0; i < n; i++, text += strlen(text) + 1) {
        uint32_t *slot = slot_of(&s, text, strlen(text));

        s.at[i] = text;
        if (!*slot)
            *slot = (uint32_t)i + 1;
    }
    *out = s;
    return 0;
}

int names_copy(struct names *out, const char *bytes, size_t n, struct err *e)
{
    size_t len = 0;
    char *copy;

    for (size_t i = 0; i < n; i++)
        len += strlen(bytes + len) + 1;
    copy = malloc(len + !len);
    if (!copy)
        return err_set(e, ERR_NOMEM, "no memory for %zu names", n);
    memcpy(copy, bytes, len);
    return names_take(out, copy, n, e);
}

char *names_packed(const struct names *s)
{
    const char *last = s->at[s->n - 1];
    size_t len = (size_t)(last - s->bytes) + strlen(last) + 1;
    char *copy = malloc(len);

    return copy ? memcpy(copy, s->bytes, len) : NULL;
}

void names_clear(struct names *s)
{
    free(s->at);
    free(s->bytes);
    free(s->slots);
    *s = (struct names){0};
}

long names_find(const struct names *s, const char *text, size_t len)
{
    return s->n && !memchr(text, '\0', len) ? (long)*slot_of(s, text, len) - 1 : -1;
}

bool names_are_unique(const struct names *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (names_find(s, s->at[i], strlen(s->at[i])) != (long)i)
            return false;
    return true;
}

const char *names_text(char *out, size_t size, const struct names *s)
{
    enum { SHOWN = 8, LEN = 40 };
    size_t shown = s->n <= SHOWN ? s->n : SHOWN - 1, at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < shown && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%.*s", i ? ", " : "", LEN, s->at[i]);
    if (shown < s->n && at < size)
        snprintf(out + at, size - at, " and %zu others", s->n - shown);
    return out;
}

/* Every byte as the character of its number. */
static json_t *bytes_json(const char *text)
{
    char *wide = malloc(2 * strlen(text) + 1);
    char *to = wide;
    json_t *o;

    for (; wide && *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c >= 0x80)
            *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
    }
    if (wide)
        *to = '\0';
    o = wide ? json_pack("{s:s}", "bytes", wide) : NULL;
    free(wide);
    return o;
}

static json_t *text_json(const char *text)
{
    return utf8_is_all(text) ? json_string(text) : bytes_json(text);
}

json_t *names_json(const struct names *s)
{
    json_t *a = json_array();

    for (size_t i = 0; a && i < s->n; i++)
        if (json_array_append_new(a, text_json(s->at[i])) < 0) {
            json_decref(a);
            a = NULL;
        }
    return a;
}

/* Writes the bytes of a text and its zero byte to *to, if not NULL, and returns their number; 0: no text. */
static size_t bytes_of(char *to, const json_t *v)
{
    const char *text = json_string_value(json_is_object(v) ? json_object_get(v, "bytes") : v);
    size_t n = 0;

    if (!text || (json_is_object(v) && json_object_size(v) != 1))
        return 0;
    for (const unsigned char *p = (const unsigned char *)text; *p; p++, n++) {
        unsigned char c = *p;

        if (json_is_object(v) && c >= 0x80) {
            if (c != 0xc2 && c != 0xc3)
                return 0;
            c = (unsigned char)(c << 6 | (*++p & 0x3f));
        }
        if (to)
            to[n] = (char)c;
    }
    if (to)
        to[n] = '\0';
    return n + 1;
}

int names_parse(struct names *out, const json_t *array, const char *at, struct err *e)
{
    size_t len = 0, n = json_array_size(array);
    const json_t *v;
    char *bytes, *to;
    size_t i;

    if (!json_is_array(array))
        return err_set(e, ERR_CONFIG, "%s: not an array", at);
    json_array_foreach(array, i, v)
    {
        size_t k = bytes_of(NULL, v);

        if (!k)
            return err_set(e, ERR_CONFIG, "%s/%zu: neither a text nor {\"bytes\": text}", at, i);
        len += k; /* at most the length of the document */
    }
    bytes = to = malloc(len + !len);
    if (!bytes)
        return err_set(e, ERR_NOMEM, "no memory for %zu names", n);
    json_array_foreach(array, i, v) to += bytes_of(to, v);
    return names_take(out, bytes, n, e);
}

json_t *names_words_json(const struct names *s)
{
    char *text = s->n ? names_packed(s) : calloc(1, 1);
    json_t *o;

    for (size_t i = 0; text && i + 1 < s->n; i++)
        text[s->at[i + 1] - s->bytes - 1] = ' ';
    o = text ? text_json(text) : NULL;
    free(text);
    return o;
}

int names_words_parse(struct names *out, const json_t *words, const char *at, struct err *e)
{
    size_t len = bytes_of(NULL, words), n = 1;
    char *bytes;

    if (!len)
        return err_set(e, ERR_CONFIG, "%s: neither a text nor {\"bytes\": text}", at);
    bytes = malloc(len);
    if (!bytes)
        return err_set(e, ERR_NOMEM, "no memory for words");
    bytes_of(bytes, words);
    for (char *p = bytes; *p; p++)
        if (*p == ' ') {
            *p = '\0';
            n++;
        }
    return names_take(out, bytes, n, e);
}
