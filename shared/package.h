/* package -- what an agent is sent before a job starts, in the order in which it is sent. */
#ifndef PSGD_PACKAGE_H
#define PSGD_PACKAGE_H

#include <stdbool.h>

enum package { PACKAGE_SETTINGS, PACKAGE_CODEC, PACKAGE_MODEL, PACKAGE_WEIGHTS, PACKAGE_DATA, N_PACKAGES };

extern const char *const package_names[N_PACKAGES]; /* as docs/protocol.md has them: "settings", ... */

/* False: there is no package of this name. */
bool package_parse(enum package *out, const char *name);

#endif
