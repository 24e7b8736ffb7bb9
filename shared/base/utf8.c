#include "shared/base/utf8.h"

#include <stdint.h>
#include <string.h>

/* Returns the length announced by a first byte; 0: it is not a first byte. */
static size_t announced(unsigned char first)
{
    return first < 0x80                    ? 1
           : first >= 0xc2 && first < 0xe0 ? 2
           : first >= 0xe0 && first < 0xf0 ? 3
           : first >= 0xf0 && first < 0xf5 ? 4
                                           : 0;
}

size_t utf8_length(const char *s, size_t len)
{
    const unsigned char *c = (const unsigned char *)s;
    size_t n = announced(c[0]);

    if (n == 0 || n > len)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf0 && c[1] < 0x90) ||
        (c[0] == 0xf4 && c[1] > 0x8f))
        return 0;
    return n;
}

bool utf8_is_all(const char *text)
{
    for (size_t len = strlen(text), step; len > 0; text += step, len -= step) {
        step = utf8_length(text, len);
        if (step == 0)
            return false;
    }
    return true;
}

size_t utf8_whole(const char *s, size_t len)
{
    size_t n = 1;

    while (n < 4 && n < len && ((unsigned char)s[len - n] & 0xc0) == 0x80)
        n++;
    return len > 0 && announced((unsigned char)s[len - n]) > n ? len - n : len;
}

/* Invisible characters that change how others are shown, or make two different texts look the same: controls,
 * directions of writing, separators of lines, joiners and spaces without width, tags. */
static const struct {
    uint32_t first, last;
} unseen[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},   {0x61c, 0x61c},
    {0x180e, 0x180e}, {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f}, {0xfeff, 0xfeff},
    {0xfff9, 0xfffb}, {0x1d173, 0x1d17a}, {0xe0000, 0xe007f},
};

/* The character of n bytes at s, which are valid. */
static uint32_t code_point(const unsigned char *s, size_t n)
{
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7fu >> n);

    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3f);
    return c;
}

static bool is_unseen(const unsigned char *s, size_t n)
{
    uint32_t c = code_point(s, n);

    if (n == 1 && c >= 0x20 && c < 0x7f) /* most of them */
        return false;
    for (size_t i = 0; i < sizeof unseen / sizeof *unseen; i++)
        if (c >= unseen[i].first && c <= unseen[i].last)
            return true;
    return false;
}

bool utf8_is_clean(const char *text)
{
    for (size_t len = strlen(text), step; len > 0; text += step, len -= step) {
        step = utf8_length(text, len);
        if (step == 0 || is_unseen((const unsigned char *)text, step))
            return false;
    }
    return true;
}

void utf8_clean(char *s, size_t len, bool keep_lines)
{
    for (size_t i = 0; i < len;) {
        unsigned char *at = (unsigned char *)s + i;
        size_t n = utf8_length(s + i, len - i);

        if (n == 0 || (is_unseen(at, n) && !(keep_lines && (*at == '\n' || *at == '\t')))) {
            for (size_t k = 0; k < (n ? n : 1); k++)
                at[k] = '?';
        }
        i += n ? n : 1;
    }
}
