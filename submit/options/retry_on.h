/* retry_on -- the reasons of a failure for which a job is tried again: --retry-on node_lost,oom. Only those
 * that another attempt may not meet again have a name; a codec's error or a setting fails each time. */
#ifndef PSGD_SUBMIT_RETRY_ON_H
#define PSGD_SUBMIT_RETRY_ON_H

#include <stdbool.h>

#include "shared/base/err.h"

#define RETRY_ON_DEFAULT "node_lost,interrupted,agent_restarted,agent_stopped"
#define RETRY_ON_NAMES                                                                                       \
    "node_lost|runner_died|oom|interrupted|agent_restarted|agent_stopped|round_timeout|disk_full|"           \
    "journal_failed,..."

/* ERR_USAGE: a name in the list is none of these. */
int retry_on_check(const char *list, struct err *e);
/* Whether the list names this reason (shared/job/reason.h). */
bool retry_on_has(const char *list, const char *reason);

#endif
