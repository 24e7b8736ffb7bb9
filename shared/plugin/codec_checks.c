#include "shared/plugin/codec_checks.h"

const struct codec_check codec_checks[N_CODEC_CHECKS] = {
    [CODEC_CHECK_ENDS] = {"ends", "every node receives the messages it waits for, and ends"},
    [CODEC_CHECK_TIMING] = {"timing", "nodes end with the same bits for 100 orders of messages"},
    [CODEC_CHECK_EQUAL] = {"equal", "workers end with equal weights, unless declared otherwise"},
    [CODEC_CHECK_RESULT] = {"result", "workers have the declared result"},
    [CODEC_CHECK_COST] = {"cost", "messages and bytes are the declared ones"},
    [CODEC_CHECK_CONVERGES] = {"converges", "least squares are solved"},
    [CODEC_CHECK_MALFORMED] =
        {"malformed",
         "messages of another length are refused, a refusal changes nothing, mutations do no harm"},
    [CODEC_CHECK_MEMORY] = {"memory", "no memory is allocated after the first rounds"},
    [CODEC_CHECK_RESTORE] = {"restore", "a job that is saved and restored ends with the same bits"},
    [CODEC_CHECK_LOSS] = {"loss",
                          "if a node is lost, the others end with an error or continue; no node hangs"},
};
