#include "agent/jobs/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/job/settings.h"
#include "shared/job/worker_list.h"

#define HOST_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:%[]"

struct peer {
    int node, data_port;
    char role[8], address[ADDRESS_MAX], host[256], key[SHA256_HEX];
};

#define PEER_AT(member) JSON_AT(struct peer, member)

static const struct json_field peer_fields[] = {
    {.key = "node",
     .kind = JSON_FIELD_INT,
     PEER_AT(node),
     .required = true,
     .min = -NODES_MAX - 1,
     .max = NODES_MAX - 1},
    {.key = "role", .kind = JSON_FIELD_TEXT, PEER_AT(role), .required = true, .choices = "worker|server"},
    {.key = "address", .kind = JSON_FIELD_TEXT, PEER_AT(address), .required = true},
    {.key = "host", .kind = JSON_FIELD_TEXT, PEER_AT(host), .required = true},
    {.key = "data_port",
     .kind = JSON_FIELD_INT,
     PEER_AT(data_port),
     .required = true,
     .min = 1,
     .max = 65535},
    {.key = "key", .kind = JSON_FIELD_TEXT, PEER_AT(key)},
    {0},
};

static int check_peer(const struct peer *p, const struct job_spec *spec, const char *at, struct err *e)
{
    uint8_t key[SHA256_BYTES];
    bool has_key = hex_decode(key, sizeof key, p->key);

    explicit_bzero(key, sizeof key);
    if (job_spec_check_node(spec, p->role, p->node, at, e) < 0)
        return e->code;
    if (!p->host[0] || strspn(p->host, HOST_CHARACTERS) != strlen(p->host))
        return err_set(e, ERR_CONFIG, "%s/host: not the name or address of a host", at);
    if (!p->address[0] || strspn(p->address, HOST_CHARACTERS) != strlen(p->address))
        return err_set(e, ERR_CONFIG, "%s/address: not host:port", at);
    if (p->node == spec->node && p->key[0])
        return err_set(e, ERR_CONFIG, "%s/key: a node shares no key with itself", at);
    if (p->node != spec->node && !has_key)
        return err_set(e, ERR_CONFIG, "%s/key: not 64 lower-case hex digits", at);
    return 0;
}

/* Parses the list, which must have every node of the job exactly once. */
static int parse_peers(json_t *nodes, const json_t *peers, const struct job_spec *spec, struct err *e)
{
    size_t n = (size_t)spec->node_count + (size_t)spec->server_count, i;
    struct peer p;
    bool *seen;
    json_t *v;
    int rc = 0;

    if (!json_is_array(peers) || json_array_size(peers) != n)
        return err_set(e, ERR_CONFIG, "/peers: not a list of the job's %zu nodes", n);
    seen = calloc(n, sizeof *seen);
    if (!seen)
        return err_set(e, ERR_NOMEM, "no memory for the peers");
    json_array_foreach(peers, i, v)
    {
        char at[32];
        size_t k;

        snprintf(at, sizeof at, "/peers/%zu", i);
        p = (struct peer){0};
        if (json_to_struct(&p, v, peer_fields, at, e) < 0 || check_peer(&p, spec, at, e) < 0) {
            rc = e->code;
            break;
        }
        k = p.node >= 0 ? (size_t)p.node : (size_t)spec->node_count + (size_t)(-2 - p.node);
        if (seen[k]) {
            rc = err_set(e, ERR_CONFIG, "%s/node: %d occurs twice", at, p.node);
            break;
        }
        seen[k] = true;
        json_array_append_new(
            nodes, json_pack("{s:i,s:s,s:s}", "node", p.node, "role", p.role, "address", p.address));
    }
    explicit_bzero(p.key, sizeof p.key);
    free(seen);
    return rc;
}

int start_document_parse(struct start_document *out, const json_t *doc, const struct job_spec *spec,
                         struct err *e)
{
    static const char *const keys[] = {"attempt", "peers", "is_crowded", NULL};
    struct start_document d = {.nodes = json_array()};

    if (json_only_keys(doc, keys, "", e) < 0 ||
        json_get_int(&d.attempt, doc, "attempt", 1, 1000000, "", e) < 0 ||
        parse_peers(d.nodes, json_object_get(doc, "peers"), spec, e) < 0)
        goto fail;
    d.line = json_line(doc);
    if (!d.line) {
        err_set(e, ERR_NOMEM, "no memory for the start document");
        goto fail;
    }
    sha256_hex(d.digest, d.line, strlen(d.line));
    *out = d;
    return 0;
fail:
    start_document_clear(&d);
    return e->code;
}

void start_document_clear(struct start_document *d)
{
    json_decref(d->nodes);
    if (d->line)
        explicit_bzero(d->line, strlen(d->line)); /* it holds keys */
    free(d->line);
    *d = (struct start_document){0};
}
