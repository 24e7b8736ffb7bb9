#include "submit/results/stopped.h"

#include <math.h>
#include <stdio.h>

static int begin_sentence(char out[STOP_TEXT], const struct stop *why, const struct settings *set)
{
    return snprintf(out, STOP_TEXT, "The job ended by its evaluation after step %llu of %llu: ",
                    (unsigned long long)why->step, (unsigned long long)settings_steps(set));
}

const char *stopped_text(char out[STOP_TEXT], const struct stop *why, const struct submission *s)
{
    const struct settings *set = &s->settings;
    bool has_accuracy = isfinite(why->accuracy);
    int n = 0;

    out[0] = '\0';
    switch (why->reason) {
    case STOP_MAX_STEPS:
        snprintf(out, STOP_TEXT, "The job ended after step %llu, as --max-steps or --max-mb asks.",
                 (unsigned long long)why->step);
        break;
    case STOP_TARGET_ACCURACY:
        n = begin_sentence(out, why, set);
        snprintf(out + n, STOP_TEXT - (size_t)n, "the accuracy of %.4f has reached --target-accuracy %g.",
                 why->accuracy, set->target_accuracy);
        break;
    case STOP_PATIENCE:
        n = begin_sentence(out, why, set);
        snprintf(out + n, STOP_TEXT - (size_t)n,
                 "the %s of %.4f is no better than earlier ones (--patience %d).",
                 has_accuracy ? "accuracy" : "loss", has_accuracy ? why->accuracy : why->loss, set->patience);
        break;
    case STOP_CODEC:
        snprintf(out, STOP_TEXT, "The job ended after step %llu of %llu, as its codec %s asked.",
                 (unsigned long long)why->step, (unsigned long long)settings_steps(set), set->codec);
        break;
    case STOP_NONE:
    case N_STOP_REASONS:
        break;
    }
    return out;
}
