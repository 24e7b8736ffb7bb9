/* checkpoint_files -- the checkpoints in a folder of results: their names, and the point of the job that
 * those of all nodes share. */
#ifndef PSGD_SUBMIT_CHECKPOINT_FILES_H
#define PSGD_SUBMIT_CHECKPOINT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/records/tensor_file.h"
#include "submit/job/job_node.h"

#define CHECKPOINT_PREVIOUS "-previous"

/* A point of the job that the checkpoints of all its nodes share. Workers store their epoch; rounds are the
 * same on servers, which may have saved them under a later epoch without further rounds. */
struct checkpoint_position {
    char job[64], epoch[24], step[24], round[24];
};
void checkpoint_position_of(struct checkpoint_position *out, const struct tensor_file *f);
bool checkpoint_is_at(const struct tensor_file *f, const struct checkpoint_position *p, int node);

/* Whether the folder has checkpoints of all n nodes of one point of the job, and of which step. */
bool checkpoint_find_common(uint64_t *step, const char *folder, const struct job_node *nodes, size_t n);

/* "checkpoints/node-1.safetensors", for a server "checkpoints/ps-0.safetensors"; `ending` "" or
 * CHECKPOINT_PREVIOUS. */
void checkpoint_file_name(char out[64], int node, const char *ending);

#endif
