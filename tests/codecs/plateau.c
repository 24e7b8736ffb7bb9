/* plateau -- the mean of weights, as fedavg, at a learning rate that is multiplied by `factor` whenever
 * `patience` evaluations in a row have not lowered the test loss; after the third time the job ends. */
#include "codec_events.h"

struct plateau {
    float factor;
    int patience;
    float best; /* the least loss; 0: none yet */
    int n_bad, n_cuts;
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct plateau, factor, 0.5, 0, 1, "factor on the learning rate"),
    CODEC_OPTION(struct plateau, patience, 2, 1, 1000,
                 "evaluations without a lower loss before it is applied"),
    {0},
};

/* The same on every worker, as all get the same mean. */
static int plateau_on_evaluation(struct codec *c)
{
    struct plateau *s = c->state;
    float loss = c->run->evaluation.loss;

    if (s->best == 0 || loss < s->best) {
        s->best = loss;
        s->n_bad = 0;
    } else if (++s->n_bad == s->patience) {
        c->run->lr_factor *= s->factor;
        s->n_bad = 0;
        c->run->wants_stop = ++s->n_cuts == 3;
    }
    return codec_record(c, "lr_factor", (double)c->run->lr_factor);
}

static const struct codec_combine plateau = {.when = CODEC_EACH_ROUND};

CODEC_PLUGIN(.name = "plateau", .source = "a page of codecs/README.md", .state_size = sizeof(struct plateau),
             .options = options, .combine = &plateau,
             .more = CODEC_MORE(.on_evaluation = plateau_on_evaluation))
