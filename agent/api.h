/* api -- the handlers of the route table; docs/protocol.md 1.3 describes their requests and responses. */
#ifndef PSGD_API_H
#define PSGD_API_H

#include "agent/routes.h"

route_handler api_healthz, api_readyz, api_status, api_agent;
route_handler api_jobs, api_reserve, api_job, api_forget, api_package, api_start, api_cancel;
route_handler api_wait, api_events, api_logs, api_records, api_artifacts, api_artifact;
route_handler api_blob_head, api_blob_put;

struct task;

/* Returns the job that the first argument names, and renews its lease if the request is authorized; NULL:
 * answered with 404. */
struct task *api_task(struct agent *a, const struct request *rq, struct response *rs);

#endif
