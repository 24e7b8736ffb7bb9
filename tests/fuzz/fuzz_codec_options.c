/* Any bytes as the parameters of a codec: they are refused with a message, or are in range and have a
 * canonical text with the same meaning. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/plugin/codec_options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct rule {
    float alpha, chosen;
    int n;
    bool is_on;
    int graph;
};

static const struct codec_option table[] = {
    CODEC_OPTION(struct rule, alpha, 0.5, 0, 1, "a rate"),
    CODEC_OPTION(struct rule, chosen, NAN, -1e6, 1e6, "or the codec's own"),
    CODEC_OPTION(struct rule, n, 5, -3, 1000, "a count"),
    CODEC_OPTION(struct rule, is_on, true, 0, 1, "a switch"),
    CODEC_OPTION_CHOICE(struct rule, graph, "ring|torus|exponential", "a graph"),
    {0},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    char canonical[CODEC_OPTIONS_TEXT];
    struct rule r = {0}, again = {0};
    struct codec_common common;
    const struct codec_options sets[] = {{table, &r}, {codec_common_options, &common}}, own = {table, &again};
    struct err e;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (codec_options_at(text) > size)
        abort();
    if (codec_options_set(sets, 2, text, &e) == 0) {
        if (!(r.alpha >= 0 && r.alpha <= 1) || r.n < -3 || r.n > 1000 || r.graph < 0 || r.graph > 2 ||
            common.every < 0)
            abort();
        if (codec_options_text(canonical, sizeof canonical, &sets[0], &e) < 0 ||
            codec_options_set(&own, 1, canonical, &e) < 0)
            abort();
        if (r.alpha != again.alpha || r.n != again.n || r.is_on != again.is_on || r.graph != again.graph ||
            (r.chosen != again.chosen && !(isnan(r.chosen) && isnan(again.chosen))))
            abort();
    }
    free(text);
    return 0;
}
