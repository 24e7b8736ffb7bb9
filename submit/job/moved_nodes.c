#include "submit/job/moved_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/net/moved_agents.h"
#include "submit/terminal/console.h"

static void take_access(struct job_node *n, const struct access *a)
{
    struct err e;

    memcpy(n->pin, a->pin, sizeof n->pin);
    memcpy(n->token, a->token, sizeof n->token);
    snprintf(n->token_sources, sizeof n->token_sources, "job_submit join");
    n->is_closed = n->must_prove = false;
    console_info("node(%d): agent %s, joined at %s, is at %s: it has the same key.", n->at.node, a->agent,
                 a->address, n->at.address);
    if (moved_agents_keep(a, n->at.address, &e) < 0)
        console_error("%s", e.text);
}

int moved_nodes_find(struct job_node *nodes, size_t n, size_t stride, struct err *e)
{
    struct moved_agent *s = calloc(n + 1, sizeof *s);
    struct job_node **without = calloc(n + 1, sizeof *without);
    struct access_list known = {0};
    size_t n_without = 0;
    int rc = s && without ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu nodes", n);

    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct job_node *one = (void *)((char *)nodes + i * stride);

        if (one->pin[0] || one->token[0] || node_has_ca(one))
            continue;
        s[n_without].address = one->at.address;
        without[n_without++] = one;
    }
    if (rc == 0 && n_without > 0)
        rc = access_list_read(&known, e);
    if (rc == 0 && known.n > 0)
        rc = moved_agents_find(s, n_without, &known, e);
    for (size_t i = 0; rc == 0 && i < n_without; i++)
        if (s[i].found)
            take_access(without[i], s[i].found);
    access_list_clear(&known);
    free(without);
    free(s);
    return rc;
}
