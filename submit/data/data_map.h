/* data_map -- files of any size, mapped into memory: their pages are read when they are used, and can be
 * released. A packed file is unpacked into an unnamed file in $TMPDIR before. */
#ifndef PSGD_DATA_MAP_H
#define PSGD_DATA_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

struct data_map { /* {0}: empty */
    void *at;     /* NULL: no bytes */
    size_t len;
};

/* Of packed data more than UNPACKED_FREE bytes may be at most UNPACKED_RATIO times as long as packed: data
 * sets are some 5 to 50 times as long; zeros, with which a small file can fill the memory, 1,000 times. */
enum { UNPACKED_FREE = 16 << 20, UNPACKED_RATIO = 200 };
bool data_is_bomb(uint64_t unpacked, uint64_t packed);
/* ERR_CONFIG, of a file whose first `packed` bytes are a bomb. */
int data_refuse_bomb(uint64_t unpacked, uint64_t packed, struct err *e);

/* ERR_NOT_FOUND, ERR_IO, ERR_NOSPACE; ERR_CONFIG: it cannot be unpacked, or unpacks to a data_is_bomb. */
int data_map_open(struct data_map *m, const char *path, struct err *e);
void data_map_close(struct data_map *m);

/* Calls `look` for the bytes in blocks of DATA_BLOCK, and releases the pages of each; stops at the first that
 * is refused. `at`: where the block begins. */
enum { DATA_BLOCK = 8 << 20 };
int data_map_walk(const struct data_map *m,
                  int (*look)(void *arg, const uint8_t *bytes, size_t at, size_t n, struct err *e), void *arg,
                  struct err *e);

/* Releases the pages of `n` bytes in a map. They are read again when they are used again. */
void data_map_release(const uint8_t *from, size_t n);

/* An unnamed file in $TMPDIR that is written from its beginning to its end, and then mapped. */
struct data_spool {
    int fd; /* -1: closed */
    uint8_t *buffer;
    size_t len; /* of the buffer */
    size_t n;   /* bytes so far */
};
int data_spool_open(struct data_spool *s, struct err *e);
int data_spool_put(struct data_spool *s, const void *bytes, size_t n, struct err *e);
/* Maps what was written, and closes the file. */
int data_spool_map(struct data_map *m, struct data_spool *s, struct err *e);
void data_spool_close(struct data_spool *s);

#endif
