#include "submit/net/invitation.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char where[] = "An agent that uses TLS prints the whole command when it starts.";

/* The last word of `text`, without quotes around it. Returns its length. */
static size_t last_word(const char **word, const char *text)
{
    const char *end = text + strlen(text), *start;

    while (end > text && strchr(" \t\r\n'\"", end[-1]))
        end--;
    for (start = end; start > text && !strchr(" \t\r\n'\"", start[-1]); start--)
        ;
    *word = start;
    return (size_t)(end - start);
}

int invitation_parse(struct agent_invitation *out, const char *text, struct err *e)
{
    struct agent_invitation v = {0};
    const char *word, *pin, *code;
    size_t len = last_word(&word, text);
    char host[256];
    int port;

    pin = memchr(word, '#', len);
    code = pin ? memchr(pin + 1, '#', len - (size_t)(pin + 1 - word)) : NULL;
    if (!code || (size_t)(pin - word) >= sizeof v.address || code - pin != BASE64_TEXT ||
        word + len - (code + 1) != BASE64_TEXT - 1) {
        err_set(e, ERR_USAGE, "join: that is not ADDRESS#PIN#CODE, of which pin and code have 43 characters");
        return err_hint(e, "%s", where);
    }
    memcpy(v.address, word, (size_t)(pin - word));
    memcpy(v.pin, pin + 1, BASE64_TEXT - 1);
    memcpy(v.code, code + 1, BASE64_TEXT - 1);
    if (!is_base64url(v.pin) || !is_base64url(v.code)) {
        err_set(e, ERR_USAGE, "join: pin and code have 43 letters, digits, '-' and '_' each");
        return err_hint(e, "%s", where);
    }
    if (address_parse(host, sizeof host, &port, v.address, e) < 0) {
        e->code = ERR_USAGE;
        return err_at(e, "join");
    }
    snprintf(v.address, sizeof v.address, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    *out = v;
    return 0;
}

int invitation_read(char out[INVITATION_MAX], int fd, struct err *e)
{
    size_t len = 0;
    char *end = NULL;
    ssize_t n = 1;

    while (!end && n != 0) {
        if (len == INVITATION_MAX - 1)
            return err_set(e, ERR_USAGE, "join: the line has more than %d bytes", INVITATION_MAX - 1);
        n = read(fd, out + len, INVITATION_MAX - 1 - len);
        if (n < 0 && errno != EINTR)
            return err_errno(e, ERR_IO, "standard input");
        if (n < 0)
            return err_set(e, ERR_CANCELLED, "join: ended before the line was read");
        end = memchr(out + len, '\n', (size_t)n);
        len += (size_t)n;
    }
    out[end ? (size_t)(end - out) : len] = '\0';
    if (out[strspn(out, " \t\r")])
        return 0;
    err_set(e, ERR_USAGE, "join: there is no line ADDRESS#PIN#CODE on standard input");
    return err_hint(e, "%s", where);
}
