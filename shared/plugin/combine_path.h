/* combine_path -- chooses the path by which the contributions of a rule that combines reach each other: the
 * user's choice, or the fastest path that the job allows. */
#ifndef PSGD_COMBINE_PATH_H
#define PSGD_COMBINE_PATH_H

#include "shared/job/combine_path_kinds.h"
#include "shared/plugin/codec_load.h"

const char *combine_path_name(enum combine_path_kind kind);

/* The properties of a rule that combines on which the choice depends. */
struct combine_path_rule {
    const char *name;
    bool is_each_step, updates_on_server, sums, overlaps;
    bool combines_params; /* its contributions are parameters, not gradients, changes or own vectors */
    bool applies, adopts; /* it has these callbacks */
};
struct combine_path_rule combine_path_rule_of(const struct codec_plugin *p);

/* Is a combination applied one exchange late? The job's --overlap decides; with "auto" the rule does. */
bool combine_path_overlaps(const struct combine_path_rule *p, enum overlap wanted);

/* Do servers send parameters, or a mean of parameters, so that they can send differences instead
 * (runner/exchange/compressing.h)? Otherwise they send gradients or changes, or parameters from which each
 * worker computes the parameters that it continues with. */
bool combine_path_servers_send_params(const struct combine_path_rule *p, bool is_sync);
/* The compression that a rule of any kind tolerates, derived from its content if the rule says
 * CODEC_BY_CONTENT. */
enum codec_compression combine_path_compression(const struct codec_plugin *p);
/* The same as combine_path_servers_send_params, for a rule of any kind. */
bool combine_path_sends_params_down(const struct codec_plugin *p, bool is_sync);
/* Does a worker train on from the parameters that the servers sent last, and contribute the result? */
bool combine_path_workers_continue(const struct combine_path_rule *p, bool is_sync);

/* Does an exchange on that path wait for every worker? Then a job cannot continue after it loses one. */
bool combine_path_waits_for_all(enum combine_path_kind kind);

/* How many of n workers take part in a round: ceil(share n), at least 1, at most n. */
int combine_path_drawn(double share, int n);

/* Returns the path of this rule in this job: the wanted path, or the fastest one if `wanted` is
 * COMBINE_PATH_AUTO. ERR_CODEC: the job cannot use the path; the message says why. */
int combine_path_choose(const struct combine_path_rule *p, enum combine_path_kind wanted,
                        const struct codec_job *job, struct err *e);

/* For a rule that does not combine. ERR_CODEC: the job asks for a path, an aggregate, participation,
 * overlap or unequal blocks, which need a rule that combines. */
int combine_path_check_unused(const char *name, enum combine_path_kind wanted, const struct codec_job *job,
                              struct err *e);

#endif
