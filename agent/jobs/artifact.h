/* artifact -- opens the files that a runner leaves so that it cannot redirect them: names in
 * shared/records/artifacts.c only, resolved beneath the agent's folder without links, regular files with one
 * name. The codec's source and manifest, from the job's packages, are artifacts too: the job can be
 * repeated. */
#ifndef PSGD_ARTIFACT_H
#define PSGD_ARTIFACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/records/artifacts.h"

enum { ARTIFACT_LINE_MAX = 65536 };

/* Returns the artifact's name if there is one of this name, or NULL. */
const char *artifact_find(const char *name);
const char *artifact_type(const char *name); /* its media type */

/* Opens jobs/FOLDER/run/NAME, or jobs/FOLDER/packages/NAME, below `dir_fd` for reading. ERR_NOT_FOUND: none,
 * ERR_REFUSED: a link, a pipe, ... */
int artifact_open(int *fd, uint64_t *bytes, int dir_fd, const char *folder, const char *name, struct err *e);

/* Returns the length of the file's prefix of whole lines; 0 if the last ARTIFACT_LINE_MAX bytes hold no
 * line feed. */
uint64_t artifact_whole_lines(int fd, uint64_t bytes);

/* Removes from the folder `run` of a job's folder, once its node has ended for `reason` ("": it has
 * succeeded), temporary files of a process that was killed; after REASON_DISK_FULL all files but the
 * artifacts, as nobody can fetch the others. After another end they stay, for the codec's author, as long as
 * the job does. Returns how many were removed for a full disk. */
size_t artifact_clean_run(const char *job_folder, const char *reason);

#endif
