#include "shared/package.h"

const char *const package_names[N_PACKAGES] = {[PACKAGE_SETTINGS] = "settings",
                                               [PACKAGE_CODEC] = "codec",
                                               [PACKAGE_MODEL] = "model",
                                               [PACKAGE_WEIGHTS] = "weights",
                                               [PACKAGE_DATA] = "data"};
