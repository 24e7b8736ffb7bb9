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

enum { LIBRARY_MOST = 10000, LIBRARY_LOOKED_AT = 100000 }; /* folders with results; others */

struct book {
    char id[SHELF_ID];
    char *folder;    /* its path */
    json_t *line;    /* NULL: it has no valid run.json; "sweep": the name of that which it is a run of */
    bool is_settled; /* the job has ended, and this is its end */
    uint64_t inode;
    int64_t bytes;
    struct timespec changed; /* of its run.json */
    bool is_seen;
};

struct library {
    char path[PATH_MAX];
    struct book *books;
    size_t n;
    size_t last;        /* the search's */
    uint64_t version;   /* of the books; one is new, changed or gone: another one */
    size_t n_looked_at; /* names in folders, by the last scan */
    bool is_partial; /* the last scan lacked descriptors or memory: what it did not see may still be there */
    json_t *ids;     /* {an id in use: of a job's id, the number of its last copy} */
};

/* A missing folder has no books. ERR_NOMEM. */
int library_scan(struct library *l, struct err *e);
void library_clear(struct library *l);

/* The book with this id; NULL: none. */
const struct book *library_find(const struct library *l, const char *id);

#endif
