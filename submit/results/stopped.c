#include "submit/results/stopped.h"

#include <stdio.h>

const char *stopped_text(char out[STOP_TEXT], const struct stop *why, const struct submission *s)
{
    const struct settings *set = &s->settings;
    unsigned long long step = why->step;

    switch (why->reason) {
    case STOP_MAX_STEPS:
        snprintf(out, STOP_TEXT, "The job ended after step %llu, as --max-steps or --max-mb asks.", step);
        break;
    case STOP_CODEC:
        snprintf(out, STOP_TEXT, "The job ended after step %llu of %llu, as its codec %s asked.", step,
                 (unsigned long long)settings_steps(set), set->codec);
        break;
    case STOP_NONE:
    case N_STOP_REASONS:
        out[0] = '\0';
    }
    return out;
}
