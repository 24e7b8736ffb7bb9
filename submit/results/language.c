#include "submit/results/language.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "shared/base/json.h"

/* The mean of the workers' numbers; with `is_sum` their sum. */
static double over_workers(const json_t *run, const char *key, bool is_sum)
{
    double sum = 0, n = 0;
    const json_t *node;
    size_t i;

    json_array_foreach(json_object_get(run, "nodes"), i, node)
    {
        double v = json_number_at(node, key, NAN);

        if (json_number_at(node, "node", -1) < 0 || isnan(v))
            continue;
        sum += v;
        n++;
    }
    return n > 0 ? (is_sum ? sum : sum / n) : NAN;
}

static double longest_time(const json_t *run)
{
    const json_t *node;
    double most = NAN;
    size_t i;

    json_array_foreach(json_object_get(run, "nodes"), i, node)
        most = fmax(most, json_number_at(node, "elapsed_s", NAN));
    return most;
}

void language_measure(struct language_results *out, const json_t *run)
{
    const json_t *data = json_object_get(json_object_get(run, "facts"), "data");
    const char *feed = json_text_at(json_object_get(run, "settings"), "feed");
    const double loss = json_number_at(json_object_get(run, "mean_over_workers"), "eval_loss", NAN);
    const double window = json_number_at(data, "window", NAN);

    *out = (struct language_results){NAN, NAN, NAN, NAN};
    if (!(window > 0))
        return;
    out->perplexity = exp(loss);
    out->bits_per_byte = loss / log(2) / json_number_at(data, "bytes_per_token", NAN);
    /* With a shared feed a step of a worker is a mini-batch of its own. */
    out->tokens = over_workers(run, "steps", strcmp(feed, "shared") == 0) *
                  json_number_at(data, "global_batch", NAN) * window;
    out->tokens_per_s = out->tokens / longest_time(run);
}
