#include "agent/access/token_verb.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/access/auth.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/private.h"

enum { ADDRESS_LINE_MAX = 512, DIGITS = 8, KEEP_S = 3600, DAY_S = 86400 };

int token_duration(double *out, const char *text, double otherwise, struct err *e)
{
    static const struct {
        char unit;
        int seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', DAY_S}};
    size_t n = strspn(text, "0123456789");

    *out = otherwise;
    if (!text[0])
        return 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (n > 0 && n <= DIGITS && text[n] == units[i].unit && !text[n + 1]) {
            *out = (double)units[i].seconds * atoi(text);
            return 0;
        }
    return err_set(e, ERR_USAGE, "\"%s\" is not a duration; write 30d, 12h, 10m or 30s", text);
}

static void print_time(double t, const char *otherwise)
{
    char text[CLOCK_TEXT];

    printf("  %-24s", t > 0 ? clock_text(text, t) : otherwise);
}

static void list_one(const char *name, enum scope scope, double since, double until)
{
    printf("%-32s  %-6s", name, scope_name(scope));
    print_time(since, "");
    print_time(until, "never");
    putchar('\n');
}

static int list_tokens(struct members *m, struct agent_options *o, struct err *e)
{
    (void)e;
    printf("%-32s  %-6s  %-24s  %s\n", "name", "scope", "since", "expires");
    if (access(o->token_file, F_OK) == 0)
        list_one("owner", SCOPE_ADMIN, 0, 0);
    for (size_t i = 0; i < m->n; i++)
        list_one(m->list[i].name, m->list[i].scope, m->list[i].since, m->list[i].until);
    for (size_t i = 0; i < m->n_invitations; i++)
        list_one("(an invitation)", m->invitations[i].scope, 0, m->invitations[i].until);
    return 0;
}

static int print_secret(char secret[BASE64_TEXT])
{
    puts(secret);
    explicit_bzero(secret, BASE64_TEXT);
    return 0;
}

static int add_token(struct members *m, struct agent_options *o, struct err *e)
{
    char token[BASE64_TEXT];
    double for_s;

    if (strcmp(o->found.operands[1], "owner") == 0 || strcmp(o->found.operands[1], "cluster") == 0)
        return err_set(e, ERR_CONFLICT, "\"%s\" is reserved for a token in a file; choose another name",
                       o->found.operands[1]);
    if (token_duration(&for_s, o->expires, 0, e) < 0 ||
        members_add(m, o->found.operands[1], (enum scope)o->scope, for_s, token, e) < 0)
        return e->code;
    return print_secret(token);
}

static int revoke_token(struct members *m, struct agent_options *o, struct err *e)
{
    if (o->invitations)
        return members_revoke_invitations(m, e);
    if (o->found.n_operands < 2)
        return err_set(e, ERR_USAGE, "token revoke needs a NAME, or --invitations");
    return members_revoke(m, o->found.operands[1], e);
}

/* The former token becomes a member's for a while, before the file has another one. */
static int rotate_owner(struct members *m, struct agent_options *o, double keep_s, struct err *e)
{
    struct token t = {.name = "owner", .scope = SCOPE_ADMIN};

    snprintf(t.path, sizeof t.path, "%s", o->token_file);
    if (token_load(&t, false, e) < 0)
        return e->code;
    if (keep_s > 0 && members_keep(m, t.name, t.scope, keep_s, t.digest, e) < 0)
        return e->code;
    return token_write(t.path, e);
}

static int rotate_token(struct members *m, struct agent_options *o, struct err *e)
{
    const char *name = o->found.n_operands > 1 ? o->found.operands[1] : "owner";
    char token[BASE64_TEXT];
    double keep_s;

    if (token_duration(&keep_s, o->keep_token, KEEP_S, e) < 0)
        return e->code;
    if (strcmp(name, "owner") == 0)
        return rotate_owner(m, o, keep_s, e);
    return members_rotate(m, name, keep_s, token, e) < 0 ? e->code : print_secret(token);
}

static int invite_member(struct members *m, struct agent_options *o, struct err *e)
{
    char path[PATH_MAX], code[BASE64_TEXT], *address;
    double for_s;
    size_t len;
    int rc;

    if (token_duration(&for_s, o->expires, INVITATION_S, e) < 0 ||
        file_join(path, sizeof path, o->dir, "address", e) < 0)
        return e->code;
    if (file_read(&address, &len, path, ADDRESS_LINE_MAX, e) < 0)
        return e->code != ERR_NOT_FOUND
                   ? e->code
                   : err_set(e, ERR_NOT_FOUND, "%s: no agent has run in this folder", o->dir);
    rc = members_invite(m, (enum scope)o->scope, for_s, code, e);
    if (rc == 0)
        printf("job_submit join '%s#%s'\n", address, code);
    explicit_bzero(code, sizeof code);
    free(address);
    return rc;
}

static const struct {
    const char *name;
    int min_operands, max_operands; /* with the verb */
    int (*run)(struct members *, struct agent_options *, struct err *);
} verbs[] = {
    {"list", 1, 1, list_tokens},    {"add", 2, 2, add_token},        {"revoke", 1, 2, revoke_token},
    {"rotate", 1, 2, rotate_token}, {"invite", 1, 1, invite_member},
};

static int run_token_verb(struct agent_options *o,
                          int (*verb)(struct members *, struct agent_options *, struct err *), struct err *e)
{
    char whole[PATH_MAX];
    struct members m;
    int rc;

    if (agent_default_folder(o, e) < 0)
        return e->code;
    if (!realpath(o->dir, whole))
        return err_errno(e, ERR_NOT_FOUND, "%s", o->dir);
    if (private_folder(whole, e) < 0)
        return e->code;
    if (!o->token_file[0] && file_join(o->token_file, sizeof o->token_file, o->dir, "token", e) < 0)
        return e->code;
    rc = members_open(&m, o->dir, e) < 0 ? e->code : 0;
    m.may_wait = true;
    if (rc == 0)
        rc = verb(&m, o, e);
    members_close(&m);
    return rc;
}

int token_verb(struct agent_options *o, struct err *e)
{
    const char *name = o->found.n_operands > 0 ? o->found.operands[0] : "";

    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verbs[i].name, name) == 0 && o->found.n_operands >= verbs[i].min_operands &&
            o->found.n_operands <= verbs[i].max_operands)
            return run_token_verb(o, verbs[i].run, e);
    if (name[0])
        err_set(e, ERR_USAGE, "token %s: unknown verb, or wrong arguments", name);
    else
        err_set(e, ERR_USAGE, "token needs a verb: list, add, revoke, rotate or invite");
    return err_hint(e, "agent token --help lists them.");
}
