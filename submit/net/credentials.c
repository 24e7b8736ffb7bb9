#include "submit/net/credentials.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/private.h"

enum { KEY_MAX = 64 << 10, CA_MAX = 16 << 20 };

static int check_pair(const struct credentials *c, struct err *e)
{
    char *key;
    size_t len;

    if (guarded_file(c->cert, e) < 0)
        return err_at(e, "--cert");
    if (private_read(&key, &len, c->key, KEY_MAX, e) < 0)
        return err_at(e, "--key");
    secret_free(key);
    return 0;
}

/* libcurl would take a file without one for a CA that nobody has signed by. */
static int check_ca(const struct credentials *c, struct err *e)
{
    char *text;
    size_t len;
    bool has_one;

    if (guarded_file(c->ca, e) < 0 || file_read(&text, &len, c->ca, CA_MAX, e) < 0)
        return err_at(e, "--ca");
    has_one = strstr(text, "-----BEGIN CERTIFICATE-----") != NULL;
    free(text);
    return has_one ? 0 : err_set(e, ERR_CONFIG, "--ca: %s has no certificate in PEM", c->ca);
}

int credentials_check(const struct credentials *c, struct err *e)
{
    if (!c->cert[0] != !c->key[0] || (c->cert[0] && !c->ca[0]))
        return err_set(e, ERR_USAGE, "--cert FILE and --key FILE go together, and with --ca FILE");
    if (c->ca[0] && check_ca(c, e) < 0)
        return e->code;
    return c->cert[0] ? check_pair(c, e) : 0;
}
