/* artifact -- the files a runner leaves, opened so that nothing it planted there leads elsewhere: names from
 * a fixed list only, resolved beneath the agent's folder without links, regular files with one name. And what
 * of a job's packages is given back with them: its codec's source and manifest, so that it can be
 * repeated. */
#ifndef PSGD_ARTIFACT_H
#define PSGD_ARTIFACT_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/err.h"

enum { N_ARTIFACTS = 15, ARTIFACT_LINE_MAX = 65536 };
extern const char *const artifact_names[N_ARTIFACTS];

/* The name in the list that equals `name`, or NULL. */
const char *artifact_find(const char *name);
const char *artifact_type(const char *name); /* its media type */

/* Opens jobs/ID/run/NAME, or jobs/ID/packages/NAME, below `dir_fd` for reading. ERR_NOT_FOUND: none,
 * ERR_REFUSED: a link, a pipe, ... */
int artifact_open(int *fd, uint64_t *bytes, int dir_fd, const char *id, const char *name, struct err *e);

/* How many bytes at its start are whole lines; 0 when the last ARTIFACT_LINE_MAX bytes hold no line feed. */
uint64_t artifact_whole_lines(int fd, uint64_t bytes);

#endif
