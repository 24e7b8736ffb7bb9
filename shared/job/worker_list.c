#include "shared/job/worker_list.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <libgen.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/job/settings.h"

enum { WORKER_FILE_MAX = 4 << 20 };

static int parse_port(int *port, const char *text, const char *whole, struct err *e)
{
    size_t n;

    text += strspn(text, "0");
    n = strlen(text);
    if (n == 0 || n > 5 || strspn(text, "0123456789") != n || atoi(text) < 1 || atoi(text) > 65535)
        return err_set(e, ERR_CONFIG, "\"%s\": the port is not a number from 1 to 65535", whole);
    *port = atoi(text);
    return 0;
}

/* An IPv6 address in its one canonical form, so that two forms of it are one agent. The scope of a link-local
 * one, "fe80::1%eth0", names an interface of the machine that connects. */
static int normalize_v6(char *host, size_t size, const char *whole, struct err *e)
{
    const char *letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._";
    char address[INET6_ADDRSTRLEN], scope[IF_NAMESIZE + 1] = "";
    size_t n = strcspn(host, "%");
    struct in6_addr v6;

    if (host[n])
        snprintf(scope, sizeof scope, "%s", host + n);
    if (n >= sizeof address || strlen(host + n) >= sizeof scope || (host[n] && !host[n + 1]) ||
        (scope[0] && strspn(scope + 1, letters) != strlen(scope + 1)))
        return err_set(e, ERR_CONFIG, "\"%s\": not an IPv6 address between the brackets", whole);
    snprintf(address, sizeof address, "%.*s", (int)n, host);
    if (inet_pton(AF_INET6, address, &v6) != 1)
        return err_set(e, ERR_CONFIG, "\"%s\": not an IPv6 address between the brackets", whole);
    inet_ntop(AF_INET6, &v6, address, sizeof address);
    snprintf(host, size, "%s%s", address, scope);
    return 0;
}

/* Names are in lower case, and "localhost." with the dot of an absolute name is localhost (RFC 6761). */
static int normalize_host(char *host, size_t size, bool bracketed, const char *whole, struct err *e)
{
    const char *known = "abcdefghijklmnopqrstuvwxyz0123456789-._";

    if (bracketed)
        return normalize_v6(host, size, whole, e);
    for (char *c = host; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (!host[0] || strspn(host, known) != strlen(host))
        return err_set(e, ERR_CONFIG, "\"%s\" is not an address; write host, host:port or [v6]:port", whole);
    if (strcmp(host, "localhost.") == 0)
        host[strlen("localhost")] = '\0';
    return 0;
}

static const char scheme[] = "http://";

int address_parse(char *host, size_t size, int *port, const char *whole, struct err *e)
{
    const char *text = whole + (strncmp(whole, scheme, sizeof scheme - 1) == 0 ? sizeof scheme - 1 : 0);
    bool bracketed = text[0] == '[';
    const char *start = text + bracketed;
    const char *end = bracketed ? strchr(start, ']') : start + strcspn(start, ":");
    const char *rest = end ? end + bracketed : NULL;
    size_t n = end ? (size_t)(end - start) : 0;

    if (strpbrk(text, ",;"))
        return err_set(e, ERR_CONFIG, "\"%s\" is more than one address; a list is [\"host:port\", ...]",
                       whole);
    if (strpbrk(text, " \t\r\n"))
        return err_set(e, ERR_CONFIG, "\"%s\": the address contains a space", whole);
    if (strstr(text, "://"))
        return err_set(e, ERR_CONFIG, "\"%s\": remove the scheme; an agent that uses TLS is joined", whole);
    if (!bracketed && rest && rest[0] && strchr(rest + 1, ':'))
        return err_set(e, ERR_CONFIG, "\"%s\": write an IPv6 address in brackets: [v6] or [v6]:port", text);
    if (!rest || n >= size || (rest[0] && rest[0] != ':'))
        return err_set(e, ERR_CONFIG, "\"%s\" is not an address; write host, host:port or [v6]:port", text);
    memcpy(host, start, n);
    host[n] = '\0';
    if (normalize_host(host, size, bracketed, text, e) < 0)
        return e->code;
    *port = AGENT_PORT;
    return rest[0] ? parse_port(port, rest + 1, text, e) : 0;
}

static int fill_address(struct listed_agent *w, const json_t *v, struct err *e)
{
    const char *text = json_string_value(v);

    if (!text)
        return err_set(e, ERR_CONFIG, "not a string with an address");
    if (address_parse(w->host, sizeof w->host, &w->port, text, e) < 0)
        return e->code;
    snprintf(w->address, sizeof w->address, strchr(w->host, ':') ? "[%s]:%d" : "%s:%d", w->host, w->port);
    return 0;
}

static const struct listed_agent *find_address(const struct listed_agent *nodes, size_t n,
                                               const char *address)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(nodes[i].address, address) == 0)
            return &nodes[i];
    return NULL;
}

enum role { WORKER, SERVER, SPARE };

static size_t count_all(const struct worker_list *w)
{
    return w->n_workers + w->n_servers + w->n_spares;
}

/* Appends one address; workers and servers are numbered in order and sorted afterwards; spares come last. */
static int add_worker(struct worker_list *w, enum role role, const json_t *v, const char *at, struct err *e)
{
    size_t n = count_all(w);
    struct listed_agent *new = &w->nodes[n];
    const struct listed_agent *same;

    *new = (struct listed_agent){0};
    if (fill_address(new, v, e) < 0)
        return err_at(e, "%s", at);
    same = find_address(w->nodes, n, new->address);
    if (same)
        return err_set(e, ERR_CONFIG, "%s: %s is a duplicate of node %d", at, new->address, same->node);
    if (role == SPARE)
        w->n_spares++;
    else if (role == SERVER)
        new->node = -2 - (int)w->n_servers++;
    else
        new->node = (int)w->n_workers++;
    return 0;
}

/* {"PS": "host" | [...], "Worker": [...]}: one key's addresses; key "": the whole document is the list. */
static int add_all(struct worker_list *w, enum role role, const json_t *v, const char *key, struct err *e)
{
    char at[64];
    json_t *one;
    size_t i;

    if (json_is_string(v)) {
        snprintf(at, sizeof at, "/%s", key);
        return add_worker(w, role, v, at, e);
    }
    if (!json_is_array(v))
        return err_set(e, ERR_CONFIG, "/%s: neither an address nor a list of addresses", key);
    json_array_foreach(v, i, one)
    {
        snprintf(at, sizeof at, "%s%s/%zu", key[0] ? "/" : "", key, i);
        if (add_worker(w, role, one, at, e) < 0)
            return e->code;
    }
    return 0;
}

/* [["PS", "host"], ["Worker", "host"], ...] */
static int add_pairs(struct worker_list *w, const json_t *doc, struct err *e)
{
    json_t *pair;
    size_t i;

    json_array_foreach(doc, i, pair)
    {
        const char *rule = json_string_value(json_array_get(pair, 0));
        char at[64];

        snprintf(at, sizeof at, "/%zu", i);
        if (!rule || json_array_size(pair) != 2 || (strcmp(rule, "PS") != 0 && strcmp(rule, "Worker") != 0))
            return err_set(e, ERR_CONFIG, "%s: not [\"PS\", address] or [\"Worker\", address]", at);
        if (add_worker(w, strcmp(rule, "PS") == 0 ? SERVER : WORKER, json_array_get(pair, 1), at, e) < 0)
            return e->code;
    }
    return 0;
}

static int read_advertise(struct listed_agent *w, const json_t *node, const char *at, struct err *e)
{
    char text[sizeof w->advertise];
    size_t n;
    bool bracketed;

    if (!json_object_get(node, "advertise"))
        return 0;
    if (json_get_text(text, sizeof text, node, "advertise", at, e) < 0)
        return e->code;
    n = strlen(text);
    bracketed = text[0] == '[' && text[n - 1] == ']';
    if (!bracketed && strchr(text, ':'))
        return err_set(
            e, ERR_CONFIG,
            "%s/advertise: \"%s\": a host without a port, which each job chooses; write an IPv6 address "
            "in brackets",
            at, text);
    snprintf(w->advertise, sizeof w->advertise, "%.*s", (int)(n - 2 * bracketed), text + bracketed);
    if (normalize_host(w->advertise, sizeof w->advertise, bracketed, text, e) < 0)
        return err_at(e, "%s/advertise", at);
    return 0;
}

/* As job_submit agents prints it, and as curl takes it. */
static int read_fingerprint(struct listed_agent *w, const json_t *node, const char *at, struct err *e)
{
    static const char algorithm[] = "sha256//";
    enum { START = sizeof algorithm - 1, END = START + BASE64_TEXT - 1 };
    char text[END + 2];

    if (!json_object_get(node, "fingerprint"))
        return 0;
    if (json_get_text(text, sizeof text, node, "fingerprint", at, e) < 0)
        return e->code;
    if (strlen(text) == END + 1 && memcmp(text, algorithm, START) == 0 && text[END] == '=') {
        text[END] = '\0';
        for (char *c = text + START; *c; c++)
            *c = (char)(*c == '+' ? '-' : *c == '/' ? '_' : *c);
        memcpy(w->pin, text + START, sizeof w->pin);
    }
    if (is_base64url(w->pin))
        return 0;
    return err_set(e, ERR_CONFIG,
                   "%s/fingerprint: not \"sha256//\" with 43 characters of base64 and \"=\", as `job_submit "
                   "agents show` prints it",
                   at);
}

/* {"nodes": {"host:port": {"token_file": "...", "advertise": "...", "fingerprint": "..."}}} */
static int read_nodes(struct worker_list *w, const json_t *nodes, struct err *e)
{
    static const char *const known[] = {"token_file", "advertise", "fingerprint", NULL};
    const char *key;
    json_t *v;

    if (nodes && !json_is_object(nodes))
        return err_set(e, ERR_CONFIG, "/nodes: not an object");
    json_object_foreach((json_t *)(uintptr_t)nodes, key, v)
    {
        struct listed_agent named = {0};
        char at[ADDRESS_MAX + 32];
        json_t *text = json_string(key);
        int rc = fill_address(&named, text, e);
        struct listed_agent *found;

        snprintf(at, sizeof at, "/nodes/%s", key);
        json_decref(text);
        if (rc < 0)
            return err_at(e, "%s", at);
        found = (struct listed_agent *)(uintptr_t)find_address(w->nodes, count_all(w), named.address);
        if (!found)
            return err_set(e, ERR_CONFIG, "%s: no Worker, PS or Spare has this address", at);
        if (json_only_keys(v, known, at, e) < 0)
            return e->code;
        if (json_object_get(v, "token_file") &&
            json_get_text(found->token_file, sizeof found->token_file, v, "token_file", at, e) < 0)
            return e->code;
        if (read_advertise(found, v, at, e) < 0 || read_fingerprint(found, v, at, e) < 0)
            return e->code;
    }
    return 0;
}

static int by_role_and_node(const void *a, const void *b)
{
    const struct listed_agent *x = a;
    const struct listed_agent *y = b;

    if ((x->node < 0) != (y->node < 0))
        return x->node < 0 ? 1 : -1;
    return abs(x->node) - abs(y->node);
}

static size_t count_addresses(const json_t *doc)
{
    const json_t *ps = json_object_get(doc, "PS");
    const json_t *workers = json_object_get(doc, "Worker");
    const json_t *spares = json_object_get(doc, "Spare");

    if (json_is_array(doc))
        return json_array_size(doc);
    return (json_is_array(ps) ? json_array_size(ps) : 1) +
           (json_is_array(workers) ? json_array_size(workers) : 1) +
           (json_is_array(spares) ? json_array_size(spares) : 1);
}

static int parse_worker(struct worker_list *w, const json_t *doc, struct err *e)
{
    static const char *const known[] = {"PS", "Worker", "Spare", "nodes", "version", NULL};
    const json_t *ps = json_object_get(doc, "PS");
    const json_t *workers = json_object_get(doc, "Worker");
    const json_t *spares = json_object_get(doc, "Spare");
    int version;

    if (json_is_string(json_array_get(doc, 0)))
        return add_all(w, WORKER, doc, "", e);
    if (json_is_array(doc))
        return add_pairs(w, doc, e);
    if (json_only_keys(doc, known, "", e) < 0)
        return e->code;
    if (json_object_get(doc, "version") && json_get_int(&version, doc, "version", 1, 2, "", e) < 0)
        return e->code;
    if (!workers)
        return err_set(e, ERR_CONFIG, "/Worker: missing");
    if (add_all(w, WORKER, workers, "Worker", e) < 0)
        return e->code;
    if (ps && !json_is_null(ps) && add_all(w, SERVER, ps, "PS", e) < 0)
        return e->code;
    if (spares && add_all(w, SPARE, spares, "Spare", e) < 0)
        return e->code;
    return read_nodes(w, json_object_get(doc, "nodes"), e);
}

int worker_list_parse(struct worker_list *out, const json_t *doc, const char *what, struct err *e)
{
    struct worker_list w = {0};
    size_t n = count_addresses(doc);

    if (n > NODES_MAX)
        return err_set(e, ERR_CONFIG, "%s: more than %d addresses", what, NODES_MAX);
    w.nodes = calloc(n + 1, sizeof *w.nodes);
    if (!w.nodes)
        return err_set(e, ERR_NOMEM, "%s: no memory for %zu nodes", what, n);
    if (parse_worker(&w, doc, e) < 0)
        goto fail;
    if (w.n_workers == 0) {
        err_set(e, ERR_CONFIG, "/Worker: no worker is listed");
        goto fail;
    }
    qsort(w.nodes, w.n_workers + w.n_servers, sizeof *w.nodes, by_role_and_node);
    *out = w;
    return 0;
fail:
    worker_list_clear(&w);
    return err_at(e, "%s", what);
}

/* A token file without a leading slash is relative to the folder of the list. */
static int place_token_files(struct worker_list *w, const char *path, struct err *e)
{
    char copy[PATH_MAX];
    const char *dir;

    snprintf(copy, sizeof copy, "%s", path);
    dir = dirname(copy);
    for (size_t i = 0; i < count_all(w); i++) {
        char name[sizeof w->nodes->token_file];
        char *file = w->nodes[i].token_file;

        if (!file[0] || file[0] == '/')
            continue;
        memcpy(name, file, sizeof name);
        if (snprintf(file, sizeof name, "%s/%s", dir, name) >= (int)sizeof name)
            return err_set(e, ERR_CONFIG, "%s: /nodes/%s/token_file: path too long", path,
                           w->nodes[i].address);
    }
    return 0;
}

int worker_list_read(struct worker_list *out, const char *path, struct err *e)
{
    struct worker_list w = {0};
    json_t *doc;
    int rc;

    if (json_read(&doc, path, WORKER_FILE_MAX, e) < 0)
        return e->code;
    rc = worker_list_parse(&w, doc, path, e);
    json_decref(doc);
    if (rc < 0)
        return rc;
    if (place_token_files(&w, path, e) < 0) {
        worker_list_clear(&w);
        return e->code;
    }
    *out = w;
    return 0;
}

bool listed_agent_is_loopback(const struct listed_agent *w)
{
    return strcmp(w->host, "localhost") == 0 || strcmp(w->host, "::1") == 0 ||
           strncmp(w->host, "127.", 4) == 0;
}

void worker_list_clear(struct worker_list *w)
{
    free(w->nodes);
    *w = (struct worker_list){0};
}
