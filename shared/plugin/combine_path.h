/* combine_path -- chooses the path on which a job's contributions meet, for a rule that combines: the user's
 * choice, or the best path that the job allows. */
#ifndef PSGD_SHARED_PATH_H
#define PSGD_SHARED_PATH_H

#include "shared/job/path_kinds.h"
#include "shared/plugin/codec_load.h"

const char *path_name(enum path_kind kind);

/* What the choice depends on, of a rule that combines. */
struct path_rule {
    const char *name;
    bool is_each_step, updates_on_server, sums, overlaps;
    bool combines_params, applies, adopts; /* the combination is of parameters as they are, not of changes */
};
struct path_rule path_rule_of(const struct codec_plugin *p);

/* Is a combination one exchange late: does the rule, or the job's --overlap, say so? */
bool path_overlaps(const struct path_rule *p, enum overlap wanted);

/* Are the vectors of servers parameters, or the mean of some, of which differences can be sent
 * (runner/exchange/copies.h)? Else they are gradients or changes, or parameters from which each worker
 * computes others that it continues from. */
bool path_servers_send_params(const struct path_rule *p, bool is_sync);
/* Of any rule: what its vectors tolerate, never CODEC_BY_CONTENT; whether its servers send parameters. */
enum codec_compression path_compression(const struct codec_plugin *p);
bool path_sends_params_down(const struct codec_plugin *p, bool is_sync);
/* Does a worker contribute the weights that have become of what the servers sent last? */
bool path_workers_continue(const struct path_rule *p, bool is_sync);

/* Does an exchange on that path wait for every worker? Then a job cannot go on without a lost one. */
bool path_waits_for_all(enum path_kind kind);

/* Workers that take part in a round: max(1, ceil(share n)). */
int path_drawn(double share, int n);

/* Returns the path of such a rule in such a job; `wanted` may be PATH_AUTO. ERR_CODEC: the job cannot use the
 * wanted one; the message says why. */
int path_choose(const struct path_rule *p, enum path_kind wanted, const struct codec_job *job, struct err *e);

/* ERR_CODEC if a path, an aggregate, a draw or unequal blocks are wanted for a rule that does not combine. */
int path_check_unused(const char *name, enum path_kind wanted, const struct codec_job *job, struct err *e);

#endif
