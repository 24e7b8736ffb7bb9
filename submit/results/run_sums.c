#include "submit/results/run_sums.h"

#include <math.h>
#include <string.h>

#include "shared/job/blocks.h"
#include "submit/job/outcome.h"

struct comm run_comm(const struct submission *s, double *least)
{
    struct comm sum = {0};

    *least = NAN;
    for (size_t i = 0; i < s->n_nodes; i++) {
        struct comm c = s->nodes[i].view.progress.comm;

        if (node_is_server(&s->nodes[i]))
            memset(c.seconds, 0, sizeof c.seconds);
        else
            *least = fmin(*least, comm_share(&c)); /* fmin of NAN and a number is the number */
        comm_add(&sum, &c);
    }
    return sum;
}

/* Seconds that the codec reads and writes messages; its apply() is counted with the optimizer's update. */
static double codec_s(const struct comm *c)
{
    return c->seconds[PHASE_ENCODE] + c->seconds[PHASE_DECODE];
}

bool run_is_bound_by_codec(const struct comm *c)
{
    double codec = codec_s(c), own = c->seconds[PHASE_COMPUTE] + c->seconds[PHASE_APPLY];

    return codec > own && codec > c->seconds[PHASE_SEND] + c->seconds[PHASE_WAIT];
}

const char *run_bound(const struct comm *sum, double least)
{
    if (run_is_bound_by_codec(sum))
        return "codec";
    return least > 0.5 ? "communication" : comm_share(sum) > 0.5 ? "slowest worker" : "compute";
}

double run_mean(const struct submission *s, size_t offset, bool of_batch, bool *differ)
{
    double sum = 0, n = 0, first = NAN;

    *differ = false;
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct job_node *k = &s->nodes[i];
        double v, weight = of_batch ? blocks_in_ratio(s->settings.block_ratio, k->at.node) : 1;

        memcpy(&v, (const char *)&k->view.progress + offset, sizeof v);
        if (node_is_server(k) || outcome_tolerates(s, k) || !isfinite(v))
            continue;
        first = n == 0 ? v : first;
        *differ |= v != first;
        sum += weight * v;
        n += weight;
    }
    return n == 0 ? NAN : *differ ? sum / n : first;
}

const struct stop *run_stopped(const struct submission *s)
{
    static const struct stop none;

    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].view.progress.stopped.reason != STOP_NONE)
            return &s->nodes[i].view.progress.stopped;
    return &none;
}
