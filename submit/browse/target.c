#include "submit/browse/target.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int digit_of(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) % 16 : -1;
}

/* Decodes in place, as the text only becomes shorter. False: it is invalid. */
static bool decode(char *text, bool is_query)
{
    char *out = text;

    for (const char *in = text; *in; in++, out++) {
        *out = *in == '+' && is_query ? ' ' : *in;
        if (*in == '%') {
            int high = digit_of(in[1]), low = high < 0 ? -1 : digit_of(in[2]);

            if (low < 0 || (high == 0 && low == 0))
                return false;
            *out = (char)(high << 4 | low);
            in += 2;
        }
    }
    *out = '\0';
    return true;
}

/* Ends the text at the first `c`. Returns the text after it, or NULL. */
static char *cut_at(char *text, char c)
{
    char *at = text ? strchr(text, c) : NULL;

    if (!at)
        return NULL;
    *at = '\0';
    return at + 1;
}

static bool add_pair(struct target *t, char *key)
{
    char *value = cut_at(key, '=');

    if (t->n == TARGET_KEYS || !decode(key, true) || (value && !decode(value, true)))
        return false;
    t->query[t->n].key = key;
    t->query[t->n++].value = value;
    return true;
}

int target_parse(struct target *out, const char *text, struct err *e)
{
    struct target t = {.path = strdup(text)};
    char *query = cut_at(t.path, '?');
    bool is_valid = t.path && decode(t.path, false);

    if (!t.path)
        return err_set(e, ERR_NOMEM, "no memory for a request");
    while (is_valid && query) {
        char *next = cut_at(query, '&');

        is_valid = add_pair(&t, query);
        query = next;
    }
    if (!is_valid) {
        target_clear(&t);
        return err_set(e, ERR_USAGE,
                       "the address has more than %d keys, or a %% that is not followed by two hexadecimal "
                       "digits other than 00",
                       TARGET_KEYS);
    }
    *out = t;
    return 0;
}

void target_clear(struct target *t)
{
    free(t->path);
    *t = (struct target){0};
}

const char *target_query(const struct target *t, const char *key)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->query[i].key, key) == 0)
            return t->query[i].value;
    return NULL;
}
