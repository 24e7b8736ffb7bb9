#include "shared/records/artifacts.h"

#include <string.h>

#include "codecs/executor.h"
#include "shared/plugin/codec_manifest.h"
#include "shared/records/trace_file.h"

#define GIB ((uint64_t)1 << 30)

#define RECORD_FILE(ID, file, row, columns, flags, max, help)                                                \
    {file ".csv", "records/" file ".csv", ARTIFACT_IS_RECORDS, flags, max, row##_columns, help},
#define MODEL(n)      n ".safetensors", "model/" n ".safetensors", ARTIFACT_IS_MODEL
#define CHECKPOINT(n) n ".safetensors", "checkpoints/", ARTIFACT_IS_CHECKPOINT
#define OF_CODEC(n)   n, "codec/", ARTIFACT_IS_OF_CODEC
#define TRACE_MAX     (TRACE_HEAD_BYTES + (uint64_t)TRACE_RECORDS_MAX * TRACE_RECORD_BYTES)

const struct artifact artifacts[N_ARTIFACTS] = {
    RECORD_FILES(RECORD_FILE) /* as in enum artifact_id, which begins with them */
        [ARTIFACT_LOG] = {"node.log", "logs/", ARTIFACT_IS_LOG,
                          OF_SERVERS | OF_EXECUTORS | NEEDED | END_IS_ENOUGH, GIB / 4, NULL,
                          "logs of the nodes and of job_submit"},
    [ARTIFACT_EVENTS] = {"events.jsonl", "events.jsonl", ARTIFACT_IS_EVENTS, OF_SERVERS | OF_EXECUTORS,
                         GIB / 4, NULL, "events with their times"},
    [ARTIFACT_FINAL_MODEL] = {MODEL("final"), NEEDED | ONE_IS_ENOUGH, 0, NULL,
                              "weights after the last step (safetensors)"},
    [ARTIFACT_BEST_MODEL] = {MODEL("best"), ONE_IS_ENOUGH, 0, NULL, "weights of the best test"},
    [ARTIFACT_CHECKPOINT] = {CHECKPOINT("checkpoint"), OF_SERVERS, 16 * GIB, NULL,
                             "where job_submit --resume starts, if the job wrote any"},
    /* After a success the last checkpoints of all nodes are of the same epoch. */
    [ARTIFACT_PREVIOUS_CHECKPOINT] = {CHECKPOINT("checkpoint-previous"), OF_SERVERS | ONLY_IF_FAILED,
                                      16 * GIB, NULL, NULL},
    [ARTIFACT_TRACE] = {"trace.bin", "", ARTIFACT_IS_TRACE, OF_SERVERS | OF_EXECUTORS | ONLY_IF_ASKED,
                        TRACE_MAX, NULL, NULL},
    [ARTIFACT_CODEC_SOURCE] = {OF_CODEC(CODEC_SOURCE_NAME), OF_EXECUTORS | ONE_IS_ENOUGH, CODEC_SOURCE_MAX,
                               NULL, "the codec's source as submitted, and its compiler and flags"},
    [ARTIFACT_CODEC_MANIFEST] = {OF_CODEC(CODEC_MANIFEST_NAME), OF_EXECUTORS | ONE_IS_ENOUGH,
                                 CODEC_MANIFEST_MAX, NULL, NULL},
    [ARTIFACT_OUTPUT] = {"output.txt", "output/", ARTIFACT_IS_OUTPUT, ONLY_OF_EXECUTORS | NEEDED,
                         EXECUTOR_OUTPUT_MAX, NULL, "what an executor has written, a file for each node"},
};

const char *artifact_name(enum artifact_id a)
{
    return artifacts[a].name;
}

size_t artifact_columns(const char *names[RECORD_COLUMNS_MAX], const struct artifact *a)
{
    size_t n = 0;

    for (; a->columns[n].name; n++)
        names[n] = a->columns[n].name;
    return n;
}

size_t artifact_column(const struct artifact *a, const char *name)
{
    size_t i = 0;

    while (strcmp(a->columns[i].name, name) != 0)
        i++;
    return i;
}

bool artifact_is_of(const struct artifact *a, bool is_server, bool is_executor)
{
    if (is_executor)
        return a->flags & (OF_EXECUTORS | ONLY_OF_EXECUTORS);
    return !(a->flags & ONLY_OF_EXECUTORS) && (!is_server || (a->flags & OF_SERVERS));
}
