/* artifact -- the files that a runner leaves in the folder of its job. The runner is not trusted: only the
 * names of shared/records/artifacts.c are opened, beneath the agent's folder, without following links, and
 * only regular files with one name. The codec's source and manifest, from the job's packages, are artifacts
 * too, so that the job can be repeated. */
#ifndef PSGD_ARTIFACT_H
#define PSGD_ARTIFACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/records/artifacts.h"

/* Returns `name` as the table of artifacts has it; NULL: no artifact has this name. */
const char *artifact_find(const char *name);
const char *artifact_type(const char *name); /* its media type */

/* Opens jobs/FOLDER/run/NAME, or jobs/FOLDER/packages/NAME, below `dir_fd` for reading. ERR_NOT_FOUND: there
 * is no such file; ERR_REFUSED: it is a link, a pipe, ... */
int artifact_open(int *fd, uint64_t *bytes, int dir_fd, const char *folder, const char *name, struct err *e);

struct folder_use {
    uint64_t bytes; /* blocks of regular files: a hole occupies none */
    size_t n_files;
};

/* Returns what the files of a job's folder `path` occupy on the disk, without those of folders below it.
 * Counting ends beyond `most` files, as a hostile job may have made any number. A folder that cannot be read
 * has no files. */
struct folder_use artifact_folder_use(const char *path, size_t most);

/* Call when the job's node has ended, for `reason` ("": it has succeeded). Removes temporary files of a
 * killed process from the folder `run` in the job's folder, and those of its training program; after
 * REASON_DISK_FULL it removes all files but the artifacts, because no route serves the others. After another
 * end these stay as long as the job, for the codec's author. Returns how many files were removed for a full
 * disk. */
size_t artifact_clean_run(const char *job_folder, const char *reason);

#endif
