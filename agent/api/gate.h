/* gate -- the checks that every request passes before its body is read: docs/protocol.md 1.1, in that order.
 * A pure function of the request's head, which is valid (shared/http/head.h); handlers rely on what is
 * checked here. */
#ifndef PSGD_GATE_H
#define PSGD_GATE_H

#include "agent/access/auth.h"
#include "agent/api/api.h"
#include "shared/http/head.h"

struct gate_rules {
    const char *bound_host; /* "127.0.0.1", "::1" */
    int port;
    const char *const *allow_hosts; /* ends with NULL */
    const struct token *token;      /* the owner's; NULL: no token is required */
    const struct token *cluster;    /* of --cluster-token; NULL: none */
    const struct members *members;  /* NULL: none */
    bool takes_certificates;        /* of clients: --client-ca is given */
};

struct gate_input {
    const struct head *head;
    const char *local_host; /* the local address of the connection; NULL: unknown */
    bool is_loopback;       /* the client is at a loopback address */
    bool has_tls;
    const char *certificate; /* the name in the client's certificate; NULL: none that is accepted */
    /* Why the client's certificate is refused; NULL: it is accepted, or not sent. */
    const char *certificate_refusal;
    double now;         /* clock_wall() */
    uint64_t disk_free; /* bytes that uploads may use (jobs_disk_free) */
};

struct gate_refusal {
    enum problem problem; /* PROBLEM_NONE: accepted, and `rq` is filled */
    char detail[320], hint[128];
    char allow[40]; /* METHOD_NOT_ALLOWED */
    bool has_wrong_token;
};

/* Returns whether the request is accepted. */
bool gate_check(const struct gate_rules *rules, const struct gate_input *in, struct request *rq,
                struct gate_refusal *refusal);

#endif
