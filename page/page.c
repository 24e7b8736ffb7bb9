#include "page/page.h"

#include <assert.h>
#include <string.h>

#include "shared/base/crypto.h"

/* The document that page/assemble writes, included by the assembler. PSGD_PAGE: its file, from the
 * Makefile. */
extern const char page_bytes[], page_bytes_end[];
__asm__(".pushsection .rodata\n"
        ".global page_bytes, page_bytes_end\n"
        "page_bytes:\n"
        ".incbin \"" PSGD_PAGE "\"\n"
        "page_bytes_end:\n"
        ".byte 0\n"
        ".popsection\n");

static size_t page_size(void)
{
    return (size_t)(page_bytes_end - page_bytes);
}

struct span {
    const char *at;
    size_t len;
};

/* Returns the text between two marks. page/assemble refuses a page without them. */
static struct span between(const char *begin, const char *end)
{
    const char *from = memmem(page_bytes, page_size(), begin, strlen(begin));
    const char *to;

    assert(from);
    from += strlen(begin);
    to = memmem(from, (size_t)(page_bytes + page_size() - from), end, strlen(end));
    assert(to);
    return (struct span){from, (size_t)(to - from)};
}

enum { HASH_TEXT = BASE64_TEXT + 1 };

/* Writes the SHA-256 in base64: the grammar of CSP allows base64url, too, but not every browser accepts
 * it. */
static void hash_of(char out[HASH_TEXT], struct span s)
{
    uint8_t sum[SHA256_BYTES];

    sha256(sum, s.at, s.len);
    base64url(out, sum);
    for (char *c = out; *c; c++)
        *c = (char)(*c == '-' ? '+' : *c == '_' ? '/' : *c);
    strcat(out, "=");
}

void page_policy(char out[PAGE_POLICY], enum page_place place)
{
    bool is_served = place == PAGE_SERVED;
    char style[HASH_TEXT];
    char script[HASH_TEXT];

    hash_of(style, between("<style>", "</style>"));
    hash_of(script, between("<script>", "</script>"));
    snprintf(out, PAGE_POLICY,
             "default-src 'none'; script-src 'sha256-%s'; style-src 'sha256-%s'; img-src %sdata: blob:; "
             "%sbase-uri 'none'; form-action 'none'%s",
             script, style, is_served ? "'self' " : "", is_served ? "connect-src 'self'; " : "",
             is_served ? "; frame-ancestors 'none'" : ""); /* ignored in a <meta> */
}

/* Writes JSON with <, >, &, U+2028 and U+2029 as \uXXXX, so that no text in it ends the script element. JSON
 * has these characters in strings only. */
static void put_escaped(FILE *out, const char *json, size_t len)
{
    const char *end = json + len;
    const char *from = json;

    for (const char *p = json; p < end; p++) {
        bool is_line = end - p >= 3 && memcmp(p, "\xe2\x80\xa8", 3) == 0;
        bool is_separator = is_line || (end - p >= 3 && memcmp(p, "\xe2\x80\xa9", 3) == 0);

        if (*p != '<' && *p != '>' && *p != '&' && !is_separator)
            continue;
        fwrite(from, 1, (size_t)(p - from), out);
        if (is_separator)
            fputs(is_line ? "\\u2028" : "\\u2029", out);
        else
            fprintf(out, "\\u%04x", (unsigned)*p);
        p += is_separator ? 2 : 0;
        from = p + 1;
    }
    fwrite(from, 1, (size_t)(end - from), out);
}

static void put_from(FILE *out, const char *from, const char *to)
{
    fwrite(from, 1, (size_t)(to - from), out);
}

void page_write(FILE *out, enum page_place place, const char *json, size_t len)
{
    const struct span data = between("id=\"psgd-data\">", "</script>");
    const char *head = between("<head>", "</head>").at;
    char policy[PAGE_POLICY];

    put_from(out, page_bytes, head);
    page_policy(policy, place);
    if (place == PAGE_FILE)
        fprintf(out, "\n<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">", policy);
    put_from(out, head, data.at);
    put_escaped(out, json, len);
    put_from(out, data.at + data.len, page_bytes + page_size());
}
