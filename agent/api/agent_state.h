/* agent_state -- struct agent, composed of the structs of the agent's folders, each of which knows only its
 * own. */
#ifndef PSGD_AGENT_STATE_H
#define PSGD_AGENT_STATE_H

#include "agent/access/auth.h"
#include "agent/api/curve.h"
#include "agent/api/etag.h"
#include "agent/base/agent_options.h"
#include "agent/jobs/jobs.h"
#include "page/page.h"
#include "shared/base/loop.h"

struct agent {
    struct agent_options opt;
    struct loop loop;
    struct auth auth;
    struct jobs jobs;
    struct curves curves;
    struct static_document openapi, page; /* of GET /openapi.json and GET / */
    char page_policy[PAGE_POLICY];
    char id[16], host[64], address[80]; /* "127.0.0.1", "127.0.0.1:15387" */
    char exe[PATH_MAX];                 /* this program */
    int lock_fd;
    double since_wall, since;
    bool allows_plain; /* HTTP without TLS, on the same port */
    bool is_insecure;  /* HTTP without TLS also beyond loopback */
    bool is_local;     /* reachable at a loopback address */
};

#endif
