/* job_files -- copies of the files of jobs on agents, in a temporary folder: one for each job, with one for
 * each attempt and node in it (shown_node_folder). Their size is bounded; the folder of a job that nobody
 * looks at any more is removed. */
#ifndef PSGD_BROWSE_JOB_FILES_H
#define PSGD_BROWSE_JOB_FILES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "submit/browse/job_list.h"
#include "submit/files/temp.h"

enum { JOB_FILES_JOBS = 64 };

struct job_files {
    struct temp temp;
    uint64_t file_most, all_most; /* bytes: 256 MiB of a file, 2 GiB in all */
    struct copied {
        char id[LISTED_ID]; /* "": none */
        uint64_t bytes;
        double looked_at; /* clock_now */
    } jobs[JOB_FILES_JOBS];
};

int job_files_open(struct job_files *c, struct err *e);
void job_files_close(struct job_files *c);

/* Opens the copy of a node's file to append to it; `had`: its bytes so far. Makes room by removing the copies
 * of the job that was looked at longest ago. ERR_NOSPACE: the file, or all copies, have their largest
 * size. */
int job_files_append(int *fd, off_t *had, struct job_files *c, const char *id, int node, int attempt,
                     const char *file, struct err *e);
void job_files_count(struct job_files *c, const char *id, off_t appended);

/* Removes the copies of jobs that nobody has looked at for ten minutes. */
void job_files_drop_unused(struct job_files *c, double now);

/* The folder of a job's copies; false: there is none. */
bool job_files_folder(char *out, size_t size, const struct job_files *c, const char *id);

#endif
