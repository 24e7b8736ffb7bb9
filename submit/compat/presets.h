/* presets -- names of Parallel-SGD, platoon and papers. A preset is a name of --codec that stands for a rule
 * with options, as in the table: an option on the command line takes precedence over the preset's, and
 * parameters (NAME:KEY=VALUE) are the rule's. */
#ifndef PSGD_SUBMIT_PRESETS_H
#define PSGD_SUBMIT_PRESETS_H

#include <stddef.h>

enum { PRESET_OPTIONS_MAX = 6 };

struct preset {
    const char *name;
    const char *options[PRESET_OPTIONS_MAX]; /* "KEY=VALUE", the first codec=; ends with NULL */
    const char *note;                        /* source, and differences from it */
};

extern const struct preset presets[]; /* by name; ends with {0} */

/* The names of all presets, for the suggestions of find_codec(); ends with NULL. */
const char *const *preset_names(void);

/* The preset of `--codec TEXT`; NULL: there is none, or there is a codec of that name. */
const struct preset *preset_find(const char *text);
/* out: "--codec ps --parallel_sgd asgd" */
void preset_text(char *out, size_t size, const struct preset *p);

/* The choices of --csv-style; of the first, psgd's own, there are no files of Parallel-SGD
 * (classic/classic.h). */
#define CSV_STYLES "tidy|classic|classic-0.9"

#endif
