/* job_files -- copies of the files of jobs on agents: in a temporary folder, with a folder for each job, and
 * in it one for each attempt and node (shown_node_folder). Their size is bounded, and the copies of jobs that
 * the page does not show any more are removed. */
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
    uint64_t file_most, all_most; /* largest bytes of a copy, 256 MiB, and of all copies, 2 GiB */
    struct copied {
        char id[LISTED_ID]; /* "": none */
        uint64_t bytes;
        double used_at; /* the last job_files_append(), by clock_now() */
    } jobs[JOB_FILES_JOBS];
};

/* Makes the temporary folder; job_files_close() removes it with all copies. */
int job_files_open(struct job_files *c, struct err *e);
void job_files_close(struct job_files *c);

/* Opens the copy of a node's file to append to it. *had: its bytes so far. Removes, if all copies have their
 * largest size, those of the jobs whose last use is longest ago. ERR_NOSPACE: the copy, or the copies of this
 * job alone, have their largest size. */
int job_files_append(int *fd, off_t *had, struct job_files *c, const char *id, int node, int attempt,
                     const char *file, struct err *e);
/* Counts bytes that were appended to a copy. */
void job_files_count(struct job_files *c, const char *id, off_t appended);

/* Removes the copies of jobs that were not used for ten minutes. */
void job_files_drop_unused(struct job_files *c, double now);

/* out: the folder of a job's copies. False: there is none. */
bool job_files_folder(char *out, size_t size, const struct job_files *c, const char *id);

#endif
