#include "shared/job/package.h"

#include <string.h>

const char *const package_names[N_PACKAGES] = {
    [PACKAGE_SETTINGS] = "settings", [PACKAGE_CODEC] = "codec", [PACKAGE_MODEL] = "model",
    [PACKAGE_WEIGHTS] = "weights",   [PACKAGE_DATA] = "data",   [PACKAGE_TRAINER] = "trainer"};

bool package_parse(enum package *out, const char *name)
{
    for (int p = 0; p < N_PACKAGES; p++)
        if (strcmp(package_names[p], name) == 0) {
            *out = (enum package)p;
            return true;
        }
    return false;
}
