/* blob -- the content-addressed store: each file is named by the SHA-256 of its bytes, and by nothing else.
 * Files are 0400. A job holds what it uses by a hard link, so that making room never takes it away. */
#ifndef PSGD_BLOB_H
#define PSGD_BLOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/crypto.h"
#include "shared/err.h"

struct blob_store {
    int dir_fd;
    uint64_t limit;   /* of bytes no job holds, beyond which the ones unused for longest go */
    uint64_t n_begun; /* names the temporary files */
};

/* One upload. {0} is none. */
struct blob_upload {
    bool is_open;
    int fd;
    char name[32];
    char hex[SHA256_HEX];
    struct sha256_sum *sum;
    uint64_t bytes, synced;
    struct err err; /* what went wrong first; the rest of the upload is swallowed */
};

/* Makes the folder and removes what unfinished uploads left. */
int blob_store_open(struct blob_store *s, const char *path, uint64_t limit, struct err *e);
void blob_store_close(struct blob_store *s);

/* Size of the blob, or -1 when it is not here; counts as a use. `hex` is checked: nothing else becomes a
 * name. */
int64_t blob_size(struct blob_store *s, const char *hex);

int blob_begin(struct blob_upload *u, struct blob_store *s, const char *hex, struct err *e);
int blob_add(struct blob_upload *u, const void *bytes, size_t len);
/* Ends the upload: on the disk under its name when 0. ERR_CONFIG: other bytes than `hex` says; ERR_IO,
 * ERR_NOSPACE. */
int blob_end(struct blob_upload *u, struct blob_store *s, struct err *e);
void blob_drop(struct blob_upload *u, struct blob_store *s); /* fine on {0} and after blob_end */

/* Links the blob to dir/name. ERR_NOT_FOUND: it is not here. */
int blob_link(struct blob_store *s, const char *hex, int dir_fd, const char *name, struct err *e);

/* Removes the blobs unused for longest that no job holds, until they are within the limit. What was used in
 * the last `keep_s` stays: somebody was told that it is here, and will link it. */
void blob_trim(struct blob_store *s, double keep_s);

#endif
