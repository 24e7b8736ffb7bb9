/* join: gets a token from an agent in exchange for the code that the agent has printed. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "submit/job/job_node.h"
#include "submit/net/http_client.h"
#include "submit/net/invitation.h"
#include "submit/net/joined_agents.h"
#include "submit/terminal/console.h"
#include "submit/verbs/verbs.h"

/* USER@HOST, for the agent's list of members. */
static void own_name(char *out, size_t size)
{
    const struct passwd *pw = getpwuid(getuid());
    char host[64] = "";

    if (gethostname(host, sizeof host - 1) < 0)
        host[0] = '\0';
    snprintf(out, size, "%.30s@%.30s", pw ? pw->pw_name : "unknown", host);
}

static int take_answer(struct joined_agent *a, const struct http_request *r, struct err *e)
{
    json_t *doc;
    int rc;

    if (r->err.code) {
        *e = r->err;
        return e->code;
    }
    if (r->status != 201) {
        reply_problem(e, r->status, r->reply, r->reply_len);
        return err_at(e, "%s", r->peer);
    }
    if (json_parse(&doc, r->reply ? r->reply : "", r->reply_len, "answer", e) < 0)
        return e->code = ERR_PROTOCOL;
    rc = json_get_text(a->token, sizeof a->token, doc, "token", "", e) < 0 ||
                 json_get_text(a->agent, sizeof a->agent, doc, "id", "", e) < 0
             ? (e->code = ERR_PROTOCOL)
             : 0;
    json_decref(doc);
    return rc;
}

static int ask_for_token(struct joined_agent *a, const struct agent_invitation *v, struct err *e)
{
    struct http *h = http_new(e);
    char name[64], label[ADDRESS_MAX + 16];
    struct http_request r = {.method = "POST",
                             .peer = label,
                             .pin = v->pin,
                             .body_type = "application/json",
                             .max_reply = REPLY_MAX,
                             .timeout_s = CALL_S};
    json_t *doc;
    char *body;
    int rc;

    if (!h)
        return e->code;
    own_name(name, sizeof name);
    snprintf(label, sizeof label, "agent %s", v->address);
    snprintf(r.url, sizeof r.url, "https://%s/v1/join", v->address);
    doc = json_pack("{s:s, s:o}", "code", v->code, "name", json_text(name, sizeof name));
    body = doc ? json_dump(doc, JSON_COMPACT) : NULL;
    json_decref(doc);
    r.body = body;
    r.body_len = body ? strlen(body) : 0;
    rc = body ? http_start(h, &r, e) : err_set(e, ERR_NOMEM, "no memory for a request");
    while (rc == 0 && r.busy)
        http_poll(h, 1);
    if (rc == 0)
        rc = take_answer(a, &r, e);
    if (r.reply)
        explicit_bzero(r.reply, r.reply_len);
    http_clear(h, &r);
    if (body)
        explicit_bzero(body, strlen(body));
    free(body);
    http_free(h);
    return rc;
}

/* Reads the operand, or for "-" a line of standard input. */
static int read_invitation(struct agent_invitation *v, const char *operand, struct err *e)
{
    char line[INVITATION_MAX];
    int rc;

    if (!operand) {
        err_set(e, ERR_USAGE, "join needs ADDRESS#PIN#CODE, or - to read it from standard input");
        return err_hint(e, "An agent that uses TLS prints the whole command when it starts.");
    }
    if (strcmp(operand, "-") != 0)
        return invitation_parse(v, operand, e);
    if (isatty(STDIN_FILENO))
        console_info("Paste the command that the agent has printed.");
    rc = invitation_read(line, STDIN_FILENO, e) < 0 ? e->code : invitation_parse(v, line, e);
    explicit_bzero(line, sizeof line);
    return rc;
}

int verb_join_by(const char *operand, struct err *e)
{
    struct joined_agent a = {.joined_at = clock_wall()};
    struct agent_invitation v;
    int rc;

    if (read_invitation(&v, operand, e) < 0)
        return e->code;
    snprintf(a.pin, sizeof a.pin, "%s", v.pin);
    snprintf(a.address, sizeof a.address, "%s", v.address);
    /* An agent accepts a code only once, so the folder for the token is made first. */
    rc = joined_agents_prepare(e) < 0 || ask_for_token(&a, &v, e) < 0 ? e->code : joined_agents_save(&a, e);
    if (rc == 0)
        console_info("Joined agent %s at %s. next: list \"%s\" in worker.json.", a.agent, a.address,
                     a.address);
    explicit_bzero(&a, sizeof a);
    explicit_bzero(&v, sizeof v);
    return rc;
}

int verb_join(const struct options *o, struct err *e)
{
    return verb_join_by(o->args.n_operands > 0 ? o->args.operands[0] : NULL, e);
}
