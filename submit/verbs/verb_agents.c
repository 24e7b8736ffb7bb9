/* agents: lists, adds, shows and removes the agents that this user has joined; drains and resumes an
 * agent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "submit/job/job_node.h"
#include "submit/net/joined_agents.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

enum { SHORT_PIN = 12 };

static const double answer_s = 8;

struct joined {
    const struct joined_agent *access;
    struct job_node node;
    struct err why; /* why it cannot be used; code 0: it answers */
};

static bool has_other_key(const struct joined *j)
{
    return j->why.code == ERR_AUTH && j->node.call.err.code;
}

static const char *state_of(const struct joined *j)
{
    if (!j->why.code)
        return "answers";
    if (j->why.code == ERR_AUTH && j->node.call.status == 401)
        return "refuses the token";
    if (has_other_key(j))
        return "has another key";
    return j->why.code == ERR_UNREACHABLE ? "does not answer" : "is in error";
}

static void ask_agent(struct http *h, struct joined *j, const struct joined_agent *a)
{
    static const struct credentials none = {0};
    struct job_node *n = &j->node;
    struct err e;

    j->access = a;
    snprintf(n->at.address, sizeof n->at.address, "%s", a->address);
    snprintf(n->label, sizeof n->label, "agent %s", a->address);
    if (address_parse(n->at.host, sizeof n->at.host, &n->at.port, a->address, &e) < 0 ||
        node_find_access(n, &none, &e) < 0 || node_ask(h, n, "GET", NULL, 0, &e, "/v1/agent") < 0)
        j->why = e;
}

static void read_answer(struct joined *j)
{
    struct job_node *n = &j->node;

    if (j->why.code)
        return;
    if (n->call.busy)
        err_set(&j->why, ERR_UNREACHABLE, "%s has not answered within %g s", n->label, answer_s);
    else if (n->call.err.code)
        j->why = n->call.err;
    else if (n->call.status != 200)
        reply_problem(&j->why, n->call.status, n->call.reply, n->call.reply_len);
    else
        reply_agent(&n->agent, n->call.reply, n->call.reply_len, &j->why);
}

/* Asks all agents at once. */
static int ask_all(struct joined *all, const struct joined_agents *l, struct err *e)
{
    double until = clock_now() + answer_s;
    struct http *h = http_new(e);
    bool is_busy = true;

    if (!h)
        return e->code;
    for (size_t i = 0; i < l->n; i++)
        ask_agent(h, &all[i], &l->items[i]);
    while (is_busy && clock_now() < until && !interrupt_signal()) {
        http_poll(h, 0.1);
        is_busy = false;
        for (size_t i = 0; i < l->n; i++)
            is_busy |= all[i].node.call.busy;
    }
    for (size_t i = 0; i < l->n; i++) {
        read_answer(&all[i]);
        node_forget(h, &all[i].node);
    }
    http_free(h);
    return interrupt_check(e);
}

/* An agent with another key than the one that is known for its address may be another joined agent: the two
 * have exchanged addresses. Saves the new addresses of these agents, and returns their number. */
static size_t find_exchanged(const struct joined *all, const struct joined_agents *l)
{
    struct searched_address *s = calloc(l->n + 1, sizeof *s);
    size_t n = 0, n_kept = 0;
    struct err e;

    for (size_t i = 0; s && i < l->n; i++)
        if (has_other_key(&all[i]))
            s[n++].address = l->items[i].address;
    if (!s || n == 0 || joined_agents_search(s, n, l, &e) < 0)
        n = 0;
    for (size_t i = 0; i < n; i++) {
        if (!s[i].found)
            continue;
        console_info(
            "Agent %s, joined at %s, answers at %s, where another agent was; its new address is saved.",
            s[i].found->agent, s[i].found->address, s[i].address);
        if (joined_agents_move(s[i].found, s[i].address, &e) < 0)
            console_error("%s", e.text);
        else
            n_kept++;
    }
    free(s);
    return n_kept;
}

static json_t *joined_json(const struct joined *j)
{
    const struct joined_agent *a = j->access;
    char at[CLOCK_TEXT];

    return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:s?, s:s?}", "address", a->address, "pin", a->pin, "agent",
                     a->agent, "joined_at", a->joined_at > 0 ? clock_text(at, a->joined_at) : NULL, "state",
                     state_of(j), "version", j->why.code ? NULL : j->node.agent.version, "error",
                     j->why.code ? j->why.text : NULL);
}

static void print_list(const struct joined *all, size_t n)
{
    if (n > 0)
        printf("%-24s %-*s  %-16s  %-16s  %s\n", "address", SHORT_PIN, "pin", "agent", "joined (UTC)",
               "state");
    for (size_t i = 0; i < n; i++) {
        const struct joined_agent *a = all[i].access;
        char at[CLOCK_TEXT] = "";

        if (a->joined_at > 0)
            clock_text(at, a->joined_at);
        text_print("%-24s %.*s  %-16s  %-16.16s  %s\n", a->address, SHORT_PIN, a->pin, a->agent, at,
                   state_of(&all[i]));
    }
    if (n == 0)
        console_plain("No agent has been joined from here yet.");
}

static void print_one(const struct joined *j)
{
    const struct joined_agent *a = j->access;
    char at[CLOCK_TEXT] = "at an unknown time";

    if (a->joined_at > 0)
        clock_text(at, a->joined_at);
    text_print("agent %s at %s\n  pin     sha256//%s=\n  joined  %s\n  state   %s\n", a->agent, a->address,
               a->pin, at, state_of(j));
    if (j->why.code)
        text_print("          %s%s\n", j->why.text, text_stop(j->why.text));
    else
        text_print("  psgd    %s\n", j->node.agent.version);
}

static void print_all(const struct options *o, const struct joined *all, size_t n)
{
    json_t *list = o->json ? json_array() : NULL;

    for (size_t i = 0; o->json && i < n; i++)
        json_array_append_new(list, joined_json(&all[i]));
    for (size_t i = 0; !o->json && o->quiet && i < n; i++)
        text_print("%s\n", all[i].access->address);
    if (o->json)
        stdout_json(true, json_pack("{s:O}", "agents", list), NULL, NULL);
    else if (!o->quiet)
        print_list(all, n);
    json_decref(list);
}

/* *is_changed: agents were found at each other's addresses; nothing is printed then, and the list must be
 * read again. */
static int list_once(const struct options *o, bool may_change, bool *is_changed, struct err *e)
{
    struct joined_agents l;
    struct joined *all;
    int rc = joined_agents_read(&l, e);

    *is_changed = false;
    if (rc < 0)
        return rc;
    all = calloc(l.n + 1, sizeof *all);
    rc = all ? ask_all(all, &l, e) : err_set(e, ERR_NOMEM, "no memory for %zu agents", l.n);
    if (rc == 0 && may_change)
        *is_changed = find_exchanged(all, &l) > 0;
    if (rc == 0 && !*is_changed) {
        if (l.bad.code)
            console_error("%s%s", l.bad.text, text_stop(l.bad.text));
        print_all(o, all, l.n);
    }
    free(all);
    joined_agents_clear(&l);
    return rc;
}

static int list_joined(const struct options *o, const char *operand, struct err *e)
{
    bool is_changed;

    if (operand)
        return err_set(e, ERR_USAGE, "agents list lists all of them; agents show %s shows one", operand);
    if (list_once(o, true, &is_changed, e) < 0)
        return e->code;
    return is_changed ? list_once(o, false, &is_changed, e) : 0;
}

/* Parses an address as in worker.json, where the port may be left out. */
static int parse_operand(char out[ADDRESS_MAX], const char *operand, struct err *e)
{
    char host[256];
    int port;

    if (!operand)
        return err_set(e, ERR_USAGE,
                       "agents show, remove, drain and resume need an address; agents list shows them");
    if (address_parse(host, sizeof host, &port, operand, e) < 0)
        return e->code = ERR_USAGE;
    snprintf(out, ADDRESS_MAX, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    return 0;
}

static int find_access(struct joined_agent *a, const char *operand, struct err *e)
{
    char address[ADDRESS_MAX];

    if (parse_operand(address, operand, e) < 0)
        return e->code;
    if (joined_agents_find(a, address, e) == 0)
        return 0;
    if (e->code != ERR_NOT_FOUND)
        return e->code;
    err_set(e, ERR_NOT_FOUND, "no agent was joined at %s", address);
    return err_hint(e, "job_submit agents list shows the addresses.");
}

static int show_agent(const struct options *o, const char *operand, struct err *e)
{
    struct joined_agent a;
    struct joined_agents one = {.n = 1, .items = &a};
    struct joined j = {0};
    int rc = find_access(&a, operand, e) < 0 ? e->code : ask_all(&j, &one, e);

    if (rc == 0 && o->json)
        stdout_json(true, joined_json(&j), NULL, NULL);
    else if (rc == 0)
        print_one(&j);
    explicit_bzero(&a, sizeof a);
    return rc;
}

/* Removes a damaged file, too. */
static int remove_agent(const struct options *o, const char *operand, struct err *e)
{
    char address[ADDRESS_MAX];

    if (parse_operand(address, operand, e) < 0)
        return e->code;
    if (joined_agents_remove(address, e) < 0)
        return err_hint(e, "job_submit agents list shows the addresses.");
    if (o->json)
        stdout_json(true, json_pack("{s:s}", "removed", address), NULL, NULL);
    console_info(
        "Pin and token of %s are deleted here. The agent accepts that token until it is revoked on its "
        "machine (docs/two-machines.md).",
        address);
    return 0;
}

static int add_agent(const struct options *o, const char *operand, struct err *e)
{
    (void)o;
    return verb_join_by(operand, e);
}

/* The agent need not be joined, as for a job. */
static int change_drain(const struct options *o, const char *operand, bool is_draining, struct err *e)
{
    struct job_node n = {0};
    struct http *h;
    struct drain_view v;
    int rc;

    if (parse_operand(n.at.address, operand, e) < 0 ||
        address_parse(n.at.host, sizeof n.at.host, &n.at.port, n.at.address, e) < 0 ||
        node_find_access(&n, &o->credentials, e) < 0)
        return e->code;
    h = http_new(e);
    if (!h)
        return e->code;
    snprintf(n.label, sizeof n.label, "agent %s", n.at.address);
    rc = node_ask(h, &n, "POST", NULL, 0, e, is_draining ? "/v1/agent/drain" : "/v1/agent/resume");
    while (rc == 0 && n.call.busy)
        http_poll(h, 1);
    if (rc == 0)
        rc = node_answer(&n, e);
    if (rc == 0)
        rc = reply_drain(&v, n.call.reply, n.call.reply_len, e);
    if (rc == 0 && o->json)
        stdout_json(true,
                    json_pack("{s:s, s:b, s:I, s:I}", "address", n.at.address, "draining", (int)v.is_draining,
                              "running", (json_int_t)v.n_running, "queued", (json_int_t)v.n_queued),
                    NULL, NULL);
    if (rc == 0 && is_draining)
        console_info("Agent %s takes no new jobs until it is resumed, even after a restart. Of its jobs %lld "
                     "run to their end, %lld wait in its queue.",
                     n.at.address, (long long)v.n_running, (long long)v.n_queued);
    else if (rc == 0)
        console_info("Agent %s takes jobs again.", n.at.address);
    node_forget(h, &n);
    http_free(h);
    return rc;
}

static int drain_agent(const struct options *o, const char *operand, struct err *e)
{
    return change_drain(o, operand, true, e);
}

static int resume_agent(const struct options *o, const char *operand, struct err *e)
{
    return change_drain(o, operand, false, e);
}

static const struct {
    const char *name;
    int (*run)(const struct options *o, const char *operand, struct err *e);
} actions[] = {{"list", list_joined},    {"add", add_agent},     {"show", show_agent},
               {"remove", remove_agent}, {"drain", drain_agent}, {"resume", resume_agent}};

int verb_agents(const struct options *o, struct err *e)
{
    const char *action = o->args.n_operands > 0 ? o->args.operands[0] : "list";

    if (o->args.n_operands > 2)
        return err_set(e, ERR_USAGE, "agents: \"%s\" is one argument too many", o->args.operands[2]);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(action, actions[i].name) == 0)
            return actions[i].run(o, o->args.n_operands > 1 ? o->args.operands[1] : NULL, e);
    return err_set(e, ERR_USAGE,
                   "agents: there is no \"%s\"; write agents list, add, show, remove, drain or resume",
                   action);
}
