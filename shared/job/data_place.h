/* data_place -- a data set that the nodes of a job read where it is, on their own disk or a shared file
 * system (job_submit --data-on-agent), instead of a copy that job_submit sends. The owner of an agent names
 * the folders below which a job may do so (agent --data-folder). The node opens the file before it gives up
 * its rights (runner/sandbox/), so that its codec can read that file and no other.
 *
 * The fingerprint of a file, "BYTES:SHA-256", shows whether all nodes read what job_submit has read: it is
 * the hash of the file's length, of its first MiB, and of 4 KiB at each of 1,024 places spread evenly over
 * the rest. To read ten gigabytes on each node before each job would take longer than many a job. */
#ifndef PSGD_DATA_PLACE_H
#define PSGD_DATA_PLACE_H

#include <stddef.h>

#include "shared/base/crypto.h"
#include "shared/base/err.h"

enum { DATA_PATH_MAX = 1024, DATA_FOLDERS_MAX = 4096, DATA_FINGERPRINT = 21 + SHA256_HEX };

/* ERR_CONFIG: the path is not absolute, or has an empty component, "." or "..". */
int data_place_check(const char *path, struct err *e);
/* Opens a regular file to read, below one of `folders`, a list of absolute paths with ':' between them; "":
 * none. Returns the descriptor. ERR_REFUSED: it is below none of them, or, below the folder, a symbolic link
 * or no regular file, or it belongs to another user than this process's and root and not everybody may read
 * it. ERR_CONFIG: as data_place_check. ERR_NOT_FOUND, ERR_IO. */
int data_place_open(const char *path, const char *folders, struct err *e);
/* ERR_IO. */
int data_place_fingerprint(char out[DATA_FINGERPRINT], int fd, const char *path, struct err *e);
/* ERR_CONFIG: the file has another fingerprint than the job's. */
int data_place_compare(int fd, const char *path, const char *fingerprint, struct err *e);

#endif
