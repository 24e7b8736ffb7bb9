#include "agent/jobs/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/job/peer_list.h"

static int check_nodes(const struct peer_list *l, const struct job_spec *spec, struct err *e)
{
    char at[32];

    for (size_t i = 0; i < l->n; i++) {
        int node = l->at[i].node;

        snprintf(at, sizeof at, "/peers/%zu", i);
        if (job_spec_check_node(spec, node < 0 ? "server" : "worker", node, at, e) < 0)
            return e->code;
    }
    return 0;
}

static int check_peers(const json_t *doc, const struct job_spec *spec, struct err *e)
{
    const char *text = json_string_value(json_object_get(doc, "peers"));
    struct peer_list l;
    int rc;

    if (!text)
        return err_set(e, ERR_CONFIG, "/peers: missing or not a text");
    if (peer_list_parse(&l, text, e) < 0)
        return e->code;
    rc = check_nodes(&l, spec, e);
    peer_list_clear(&l);
    return rc;
}

/* The runner checks that the list has the nodes that the rule needs. */
int start_document_parse(struct start_document *out, const json_t *doc, const struct job_spec *spec,
                         struct err *e)
{
    static const char *const keys[] = {"attempt", "secret", "peers", "is_crowded", NULL};
    struct start_document d = {0};
    char secret[SHA256_HEX];

    if (json_only_keys(doc, keys, "", e) < 0 ||
        json_get_int(&d.attempt, doc, "attempt", 1, 1000000, "", e) < 0 ||
        json_get_text(secret, sizeof secret, doc, "secret", "", e) < 0 || check_peers(doc, spec, e) < 0)
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
    if (d->line)
        explicit_bzero(d->line, strlen(d->line)); /* it holds a secret */
    free(d->line);
    *d = (struct start_document){0};
}
