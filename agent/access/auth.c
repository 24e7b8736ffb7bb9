#include "agent/access/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/log.h"
#include "shared/base/file.h"
#include "shared/base/private.h"

/* A token file is checked with the folders in which it is. */
static int load_token(struct token *t, const char *file, const char *name, enum scope scope, bool may_make,
                      struct err *e)
{
    char whole[PATH_MAX], *slash;

    *t = (struct token){.name = name, .scope = scope};
    snprintf(t->path, sizeof t->path, "%s", file);
    if (token_load(t, may_make, e) < 0)
        return e->code;
    if (!realpath(file, whole))
        return err_errno(e, ERR_IO, "%s", file);
    slash = strrchr(whole, '/');
    slash[slash == whole] = '\0';
    return private_folder(whole, e) < 0 ? err_at(e, "token file %s", file) : 0;
}

static int load_tokens(struct auth *a, struct agent_options *o, struct err *e)
{
    bool may_make = !o->token_file[0];

    if (may_make && file_join(o->token_file, sizeof o->token_file, o->dir, "token", e) < 0)
        return e->code;
    if (!o->no_token && load_token(&a->token, o->token_file, "owner", SCOPE_ADMIN, may_make, e) < 0)
        return e->code;
    return o->cluster_token[0] &&
                   load_token(&a->cluster, o->cluster_token, "cluster", SCOPE_SUBMIT, false, e) < 0
               ? e->code
               : 0;
}

static int load_identity(struct auth *a, const struct agent_options *o, struct err *e)
{
    int rc = o->tls_cert[0] ? identity_read(&a->identity, o->tls_cert, o->tls_key, e)
                            : identity_load(&a->identity, o->dir, e);

    return rc == 0 && o->client_ca[0] ? identity_read_client_ca(&a->identity, o->client_ca, e) : rc;
}

void auth_refresh(struct auth *a)
{
    struct err e;

    if (token_refresh(&a->token, &e) < 0 || token_refresh(&a->cluster, &e) < 0 ||
        members_refresh(&a->members, &e) < 0)
        log_line(LOG_LEVEL_ERROR, "agent", NULL, "tokens: %s", e.text);
}

int auth_open(struct auth *a, struct agent_options *o, struct err *e)
{
    if (load_tokens(a, o, e) < 0 || members_open(&a->members, o->dir, e) < 0)
        return e->code;
    return load_identity(a, o, e);
}

void auth_close(struct auth *a)
{
    identity_clear(&a->identity);
    members_close(&a->members);
}
