#include "agent/jobs/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/job/peer_list.h"

/* The nodes of the list, for clients; each must be one of the job. */
static int list_nodes(json_t *nodes, const struct peer_list *l, const struct job_spec *spec, struct err *e)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct peer *p = &l->at[i];
        const char *role = p->node < 0 ? "server" : "worker";
        char at[32];

        snprintf(at, sizeof at, "/peers/%zu", i);
        if (job_spec_check_node(spec, role, p->node, at, e) < 0)
            return e->code;
        json_array_append_new(
            nodes, json_pack("{s:i,s:s,s:s}", "node", p->node, "role", role, "address", p->address));
    }
    return 0;
}

static int parse_peers(json_t *nodes, const json_t *doc, const struct job_spec *spec, struct err *e)
{
    const char *text = json_string_value(json_object_get(doc, "peers"));
    struct peer_list l;
    int rc;

    if (!text)
        return err_set(e, ERR_CONFIG, "/peers: missing or not a text");
    if (peer_list_parse(&l, text, e) < 0)
        return e->code;
    rc = list_nodes(nodes, &l, spec, e);
    peer_list_clear(&l);
    return rc;
}

/* The runner checks that the list has the nodes that the rule needs. */
int start_document_parse(struct start_document *out, const json_t *doc, const struct job_spec *spec,
                         struct err *e)
{
    static const char *const keys[] = {"attempt", "secret", "peers", "is_crowded", NULL};
    struct start_document d = {.nodes = json_array()};
    char secret[SHA256_HEX];

    if (json_only_keys(doc, keys, "", e) < 0 ||
        json_get_int(&d.attempt, doc, "attempt", 1, 1000000, "", e) < 0 ||
        json_get_text(secret, sizeof secret, doc, "secret", "", e) < 0 ||
        parse_peers(d.nodes, doc, spec, e) < 0)
        goto fail;
    if (!is_sha256_hex(secret)) {
        err_set(e, ERR_CONFIG, "/secret: not %d lower-case hex digits", SHA256_HEX - 1);
        goto fail;
    }
    d.line = json_line(doc);
    if (!d.line) {
        err_set(e, ERR_NOMEM, "no memory for the start document");
        goto fail;
    }
    sha256_hex(d.digest, d.line, strlen(d.line));
    explicit_bzero(secret, sizeof secret);
    *out = d;
    return 0;
fail:
    explicit_bzero(secret, sizeof secret);
    start_document_clear(&d);
    return e->code;
}

void start_document_clear(struct start_document *d)
{
    json_decref(d->nodes);
    if (d->line)
        explicit_bzero(d->line, strlen(d->line)); /* it holds a secret */
    free(d->line);
    *d = (struct start_document){0};
}
