/* presets -- names of Parallel-SGD, platoon and papers for what is here a rule and a compressor, or a rule
 * and an option. `--codec NAME` then stands for the options of the table; an option that is given counts
 * more, and parameters (NAME:KEY=VALUE) are the rule's. */
#ifndef PSGD_SUBMIT_PRESETS_H
#define PSGD_SUBMIT_PRESETS_H

#include <stddef.h>

enum { PRESET_OPTIONS_MAX = 6 };

struct preset {
    const char *name;
    const char *options[PRESET_OPTIONS_MAX]; /* "KEY=VALUE", of which the first is codec=; ends with NULL */
    const char *note;                        /* what it is, and how it differs */
};

extern const struct preset presets[]; /* by name; ends with {0} */

/* Their names, for the suggestions of find_codec(); ends with NULL. */
const char *const *preset_names(void);

/* The preset of `--codec TEXT`; NULL: there is none, or a codec of that name was found. */
const struct preset *preset_find(const char *text);
/* "--codec ps --parallel_sgd asgd" */
void preset_text(char *out, size_t size, const struct preset *p);

#endif
