/* package -- the packages that job_submit sends to an agent before a job starts, in this order. */
#ifndef PSGD_PACKAGE_H
#define PSGD_PACKAGE_H

#include <stdbool.h>

enum package {
    PACKAGE_SETTINGS,
    PACKAGE_CODEC,
    PACKAGE_MODEL,
    PACKAGE_WEIGHTS,
    PACKAGE_DATA,
    PACKAGE_TRAINER, /* the program that trains, of a worker whose job has one */
    N_PACKAGES
};

enum { PACKAGE_FILES_MAX = 3 }; /* files of one package */

extern const char *const package_names[N_PACKAGES]; /* as in docs/protocol.md: "settings", ... */

/* Returns false if there is no package of this name. */
bool package_parse(enum package *out, const char *name);

#endif
