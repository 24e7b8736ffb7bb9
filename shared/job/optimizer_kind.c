#include "shared/job/optimizer_kind.h"

#define ENTRY(constant, ...) [constant] = {__VA_ARGS__},

const struct optimizer_defaults optimizer_kinds[N_OPTIMIZERS] = {OPTIMIZERS(ENTRY)};
