/* result_list -- the result folders in a folder, which anybody may have written: the folder itself, its
 * subfolders, their subfolders, and the runs of sweeps among them. A run.json that has not changed is not
 * read again. */
#ifndef PSGD_BROWSE_RESULT_LIST_H
#define PSGD_BROWSE_RESULT_LIST_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "shared/base/err.h"
#include "submit/browse/job_list.h"

/* The largest number of folders with results, and of names that a scan looks at. */
enum { RESULT_LIST_MAX = 10000, RESULT_LIST_LOOKED_AT = 100000 };

struct result_folder {
    char id[LISTED_ID];
    char *folder;    /* its path */
    json_t *line;    /* document_line(), and "sweep", its sweep's name; NULL: no valid run.json */
    bool is_settled; /* the job has ended, by run.json */
    uint64_t inode;
    int64_t bytes;
    struct timespec changed; /* as inode and bytes: of its run.json */
    bool is_seen;
};

struct result_list {
    char path[PATH_MAX];
    struct result_folder *folders;
    size_t n;
    size_t last;        /* where the next search of a folder begins */
    uint64_t version;   /* changes when a folder is new, changed or gone */
    size_t n_looked_at; /* names, in the last scan */
    bool is_partial; /* the last scan lacked descriptors or memory: folders that it missed may still exist */
    json_t *ids;     /* {id in use: the number of the last copy of the job with this id} */
};

/* Updates the list. A missing folder has no results. ERR_NOMEM. */
int result_list_scan(struct result_list *l, struct err *e);
void result_list_clear(struct result_list *l);

/* The folder with results of the job with this id; NULL: none. */
const struct result_folder *result_list_find(const struct result_list *l, const char *id);

#endif
