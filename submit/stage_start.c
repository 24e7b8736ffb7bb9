/* start: doCommit. Every node is ready; all are told who the others are and go. If one does not go, none
 * shall. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/json.h"
#include "submit/job_index.h"
#include "submit/say.h"
#include "submit/submission.h"

static json_t *peers(const struct submission *s)
{
    json_t *list = json_array();

    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct node *n = &s->nodes[i];

        json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s, s:i}", "node", n->at.node, "role",
                                              node_role(n), "address", n->at.address, "host",
                                              n->at.advertise[0] ? n->at.advertise : n->at.host, "data_port",
                                              n->view.data_port));
    }
    return list;
}

/* The key of the data plane is made here, and lives nowhere else than in the nodes of the job. */
static char *order(const struct submission *s)
{
    uint8_t key[SHA256_BYTES];
    char hex[SHA256_HEX];
    char *line;
    json_t *o;

    random_bytes(key, sizeof key);
    hex_encode(hex, key, sizeof key);
    o = json_pack("{s:i, s:s, s:o}", "attempt", ATTEMPT, "key", hex, "peers", peers(s));
    line = o ? json_line(o) : NULL;
    json_decref(o);
    explicit_bzero(key, sizeof key);
    explicit_bzero(hex, sizeof hex);
    return line;
}

static int send_order(struct submission *s, const char *body, struct err *e)
{
    struct err other;
    int rc = 0;

    for (size_t i = 0; i < s->n_nodes; i++)
        if (node_ask(s->http, &s->nodes[i], "POST", body, strlen(body), e, "/v1/jobs/%s/start", s->id) < 0)
            return e->code;
    submission_finish_calls(s);
    for (size_t i = 0; i < s->n_nodes; i++)
        if (node_answer(&s->nodes[i], rc ? &other : e) < 0)
            rc = e->code;
    return rc;
}

static int check_ports(const struct submission *s, struct err *e)
{
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].view.data_port == 0)
            return err_set(e, ERR_PROTOCOL, "node(%d): %s is ready and names no data_port",
                           s->nodes[i].at.node, s->nodes[i].label);
    return 0;
}

int stage_start(struct submission *s, struct err *e)
{
    char *body;
    int rc;

    if (submission_check_time(s, e) < 0 || check_ports(s, e) < 0)
        return e->code;
    /* Before the order goes out: from then on the job may run whatever becomes of this process. */
    if (job_index_save(s, e) < 0)
        return e->code;
    body = order(s);
    if (!body)
        return err_set(e, ERR_NOMEM, "no memory");
    rc = send_order(s, body, e);
    explicit_bzero(body, strlen(body));
    free(body);
    if (rc < 0) {
        job_index_forget(s->id);
        return rc;
    }
    s->is_started = true;
    say_info("Start job %s.", s->id);
    return 0;
}
