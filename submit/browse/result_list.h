/* result_list -- the result folders below a folder, which anybody may have written: itself, those in it, and
 * those in these; and the runs of the sweeps among them. What has not changed is not read again. */
#ifndef PSGD_BROWSE_RESULT_LIST_H
#define PSGD_BROWSE_RESULT_LIST_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "shared/base/err.h"
#include "submit/browse/job_list.h"

enum { RESULT_LIST_MAX = 10000, RESULT_LIST_LOOKED_AT = 100000 }; /* folders with results; others */

struct result_folder {
    char id[LISTED_ID];
    char *folder;    /* its path */
    json_t *line;    /* NULL: it has no valid run.json; "sweep": the name of that which it is a run of */
    bool is_settled; /* the job has ended, and this is its end */
    uint64_t inode;
    int64_t bytes;
    struct timespec changed; /* of its run.json */
    bool is_seen;
};

struct result_list {
    char path[PATH_MAX];
    struct result_folder *folders;
    size_t n;
    size_t last;        /* the search's */
    uint64_t version;   /* of the folders; one is new, changed or gone: another one */
    size_t n_looked_at; /* names in folders, by the last scan */
    bool is_partial; /* the last scan lacked descriptors or memory: what it did not see may still be there */
    json_t *ids;     /* {an id in use: of a job's id, the number of its last copy} */
};

/* A missing folder has no results. ERR_NOMEM. */
int result_list_scan(struct result_list *l, struct err *e);
void result_list_clear(struct result_list *l);

/* The folder of the job with this id; NULL: none. */
const struct result_folder *result_list_find(const struct result_list *l, const char *id);

#endif
