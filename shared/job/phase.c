#include "shared/job/phase.h"

const char *const phase_names[N_PHASES] = {"compute", "encode", "send",     "wait",
                                           "decode",  "apply",  "evaluate", "checkpoint"};
