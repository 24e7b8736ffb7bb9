/* shown -- a job as it is shown: what its run.json says, and its files; of a job that runs, what its agents
 * say, and copies of its nodes' files so far, each node's in a folder of its own (shown_node_folder). */
#ifndef PSGD_BROWSE_SHOWN_H
#define PSGD_BROWSE_SHOWN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/records/artifacts.h"

struct shown {
    json_t *run;      /* of run.json's form; owned */
    char *path;       /* of its folder; owned; NULL: it has no files yet */
    int dir;          /* the folder, owned; -1 */
    bool is_live;     /* the folder has one for each node */
    struct err stale; /* of a job that runs: why its files are not as of now; code 0: they are */
};

/* The folder, in that of a job which runs, with the copies of a node's files: each attempt of the node begins
 * its files anew, so each has its own. */
enum { SHOWN_FOLDER = 32 };
void shown_node_folder(char out[SHOWN_FOLDER], int node, int attempt);
void shown_live_folder(char out[SHOWN_FOLDER], const json_t *node); /* of one of the run's nodes */

/* {0} is not a valid one: shown_open(), then shown_clear() in any case. `path`: the folder of results. */
int shown_open(struct shown *s, const char *path, struct err *e);
void shown_clear(struct shown *s);

/* Calls `take` with each file of this path in the results, opened: one, or those of the nodes that have it.
 * None is no error. `node`: whose it is; SHOWN_ALL: all nodes'. Of a job that runs, only the files of the
 * attempt that its run.json names are taken. */
enum { SHOWN_ALL = 1 << 30 };
int shown_each(const struct shown *s, const char *path,
               int (*take)(void *ctx, int fd, int node, struct err *e), void *ctx, struct err *e);

/* A string of an untrusted document; NULL: there is no such one. */
const char *shown_text(const json_t *o, const char *key);

#endif
