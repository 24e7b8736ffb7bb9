/* blob -- the content-addressed store: each file is named by the SHA-256 of its bytes. Files are 0400. A
 * job hard-links the blobs it uses, so that trimming the store never removes them; where the file system has
 * no hard links, it has copies. */
#ifndef PSGD_BLOB_H
#define PSGD_BLOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/crypto.h"
#include "shared/base/err.h"

enum { DISK_RESERVE_MIB = 64 }; /* kept free of uploads, for journals and records */

struct blob_store {
    int dir_fd;
    uint64_t limit;     /* of bytes that no job links; beyond it the least recently used blobs are removed */
    uint64_t n_begun;   /* names the temporary files */
    uint64_t announced; /* bytes that uploads in flight have announced and not written yet */
};

/* One upload. {0} is none. */
struct blob_upload {
    bool is_open;
    int fd;
    char name[32];
    char hex[SHA256_HEX];
    struct sha256_sum *sum;
    uint64_t bytes, synced, announced; /* written; of these, with writeback begun; not written yet */
    struct err err;                    /* the first failure; the rest of the upload is discarded */
};

/* Creates the folder and removes the files of unfinished uploads. */
int blob_store_open(struct blob_store *s, const char *path, uint64_t limit, struct err *e);
void blob_store_close(struct blob_store *s);

/* Returns the blob's size, or -1 if it is not stored; counts as a use. `hex` is checked before it becomes a
 * file name. */
int64_t blob_size(struct blob_store *s, const char *hex);

/* Begins an upload of `bytes`, which count as used from now on, so that all uploads in flight fit on the
 * disk. */
int blob_begin(struct blob_upload *u, struct blob_store *s, const char *hex, uint64_t bytes, struct err *e);
int blob_add(struct blob_upload *u, struct blob_store *s, const void *bytes, size_t len);
/* Ends the upload; on 0 the blob is on disk under its name. ERR_CONFIG: the bytes do not have the digest
 * `hex`; ERR_IO, ERR_NOSPACE. */
int blob_end(struct blob_upload *u, struct blob_store *s, struct err *e);
void blob_drop(struct blob_upload *u, struct blob_store *s); /* no effect on {0} and after blob_end */

/* Stores the bytes and sets `hex`, their SHA-256. ERR_IO, ERR_NOSPACE, ERR_NOMEM. */
int blob_put(struct blob_store *s, char hex[SHA256_HEX], const void *bytes, size_t len, struct err *e);

/* Links the blob to dir/name, or copies it where the file system has no hard links; a file there is replaced
 * as a whole. ERR_NOT_FOUND: it is not stored. */
int blob_link(struct blob_store *s, const char *hex, int dir_fd, const char *name, struct err *e);
/* Stores the file `path`, whose digest the caller has found to be `hex`, likewise by a link or a copy. */
int blob_take(struct blob_store *s, const char *hex, const char *path, struct err *e);

/* Removes the least recently used blobs that no job links, until the rest is within the limit. Blobs used
 * in the last `keep_s` stay: a submitter may rely on an answer that they are stored, and will link them. Uses
 * are ordered by the monotonic clock; one before this boot of the machine may count as the oldest. */
void blob_trim(struct blob_store *s, double keep_s);

#endif
