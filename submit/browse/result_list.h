/* result_list -- the result folders in some folders, which anybody may have written: each of these itself,
 * its subfolders, their subfolders, and the runs of sweeps among them. A run.json that has not changed is not
 * read again; of many results not even by the next process (result_cache.h). */
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
    const char *const *roots; /* the folders that are scanned; borrowed */
    size_t n_roots;
    struct result_folder *folders;
    size_t n;
    json_t *at;         /* {path of a folder: its index} */
    uint64_t version;   /* changes when a folder is new, changed or gone */
    size_t n_looked_at; /* names, in the last scan */
    bool is_partial; /* the last scan lacked descriptors or memory: folders that it missed may still exist */
    json_t *ids;     /* {id in use: the number of the last copy of the job with this id} */
    uint64_t saved;  /* the version that result_cache_save() has saved */
};

/* Updates the list. A missing folder has no results. ERR_NOMEM. */
int result_list_scan(struct result_list *l, struct err *e);
void result_list_clear(struct result_list *l);

/* The folder with results of the job with this id; NULL: none. */
const struct result_folder *result_list_find(const struct result_list *l, const char *id);

/* Adds a folder without a line. ERR_NOMEM. */
int result_list_add(struct result_list *l, const char *folder, struct err *e);

#endif
