#include "shared/codec_check.h"

const struct codec_check codec_checks[CODEC_CHECKS] = {
    {"ends", "every node gets what it waits for, and ends"},
    {"timing", "nodes end with the same bits whatever the order of messages, of 100"},
    {"result", "workers have the declared result"},
    {"cost", "messages and bytes are the declared ones"},
    {"converges", "least squares are solved"},
    {"malformed", "messages cut short are refused, changed ones do no harm"},
    {"memory", "no memory is allocated behind the first rounds"},
    {"restore", "a job that is saved and restored ends with the same bits"},
    {"loss", "a lost node ends the others in words, or they go on; nobody hangs"},
};
