/* tensor_file -- safetensors files and their types of numbers: models, checkpoints, and the shards of a data
 * set. Format: u64 length of a JSON header, the header {"name": {"dtype", "shape", "data_offsets"},
 * "__metadata__": {text: text}}, padded with spaces to 8 bytes, then the tensors one after the other.
 * Little-endian, row-major, no holes. */
#ifndef PSGD_TENSOR_FILE_H
#define PSGD_TENSOR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* A name is that of a tensor of a model, with "model/" before it in a checkpoint, which besides the 4096
 * tensors of a model (shared/job/model_spec.h) has vectors of the optimizer and the codec. */
enum { TENSOR_DIMS = 8, TENSOR_NAME = 136, TENSOR_SHAPE_TEXT = 192, TENSOR_FILE_MAX_TENSORS = 8192 };

enum tensor_type {
    TENSOR_F32,
    TENSOR_U8,
    TENSOR_I32,
    TENSOR_I64,
    TENSOR_F16,
    TENSOR_BF16,
    TENSOR_F64,
    TENSOR_U16,
    N_TENSOR_TYPES
};

struct tensor_view {
    char name[TENSOR_NAME];
    enum tensor_type type;
    int n_dims;
    size_t shape[TENSOR_DIMS];
    const void *data; /* not copied */
};

struct tensor_meta {
    const char *key, *value;
};

/* Writes under a temporary name and renames. `meta` ends with {0} and may be NULL. Wider types come first,
 * so that every tensor is aligned. ERR_INTERNAL: a name is empty or used twice. ERR_IO, ERR_NOSPACE,
 * ERR_NOMEM. */
int tensor_file_write(const char *path, const struct tensor_view *t, size_t n, const struct tensor_meta *meta,
                      struct err *e);
int tensor_file_write_unsynced(const char *path, const struct tensor_view *t, size_t n,
                               const struct tensor_meta *meta,
                               struct err *e); /* file_sync_bytes() syncs it */

/* Rows of a tensor, which is (n, ...), that lie anywhere: row i is at data + number[i] * stride. */
struct tensor_rows {
    const uint32_t *number; /* (n); NULL: they follow each other */
    size_t stride;          /* bytes */
    /* Called each time that rows were written, TENSOR_ROWS_RELEASED bytes or fewer: their pages may be
     * released. NULL: never. */
    void (*release)(const void *owner);
    const void *owner;
};
enum { TENSOR_ROWS_RELEASED = 16 << 20 };
/* As tensor_file_write_unsynced; rows (n): of each tensor. The rows are written from where they are. */
int tensor_file_write_rows(const char *path, const struct tensor_view *t, const struct tensor_rows *rows,
                           size_t n, const struct tensor_meta *meta, struct err *e);

/* Checks that this process may write a file with this much data, and a header of at most 2 MiB and the two
 * texts of its metadata that may be longer: a model's document, and a preprocessing record or NULL. Call it
 * before the work whose result the file has. ERR_CONFIG: the limit on file sizes (RLIMIT_FSIZE) is lower;
 * `what` names the file. */
int tensor_file_fits(const char *what, uint64_t data_bytes, const char *arch, const char *preprocessing,
                     struct err *e);

/* An open file is mapped; the views and metadata point into it. It must not be truncated meanwhile: psgd
 * itself only replaces whole files. `tensors` are in the order of the file. */
struct tensor_file {
    void *map;
    size_t map_len;
    struct tensor_view *tensors;
    const struct tensor_view **by_name; /* (n), sorted */
    size_t n;
    void *header; /* the parsed header, for tensor_file_meta */
};

/* ERR_CONFIG: not a safetensors file, or inconsistent (offsets, sizes, holes, names), or has a tensor that
 * is not aligned to its type. */
int tensor_file_open(struct tensor_file *f, const char *path, struct err *e);
/* The same for bytes in memory, which must outlive `f` and be aligned to 8. */
int tensor_file_parse(struct tensor_file *f, const void *bytes, size_t len, const char *what, struct err *e);
/* Reads only the header of an open file of `len` bytes, which another process may still write or truncate:
 * every value of a tensor reads as 0. */
int tensor_file_read_header(struct tensor_file *f, int fd, size_t len, const char *what, struct err *e);
void tensor_file_close(struct tensor_file *f);

/* Calls `rename` for each tensor, which may change its name to another one of at most TENSOR_NAME - 1 bytes;
 * a tensor for which it returns false is left out of the views. */
void tensor_file_rename(struct tensor_file *f, bool (*rename)(struct tensor_view *t, void *owner),
                        void *owner);

/* NULL: not found. */
const struct tensor_view *tensor_file_find(const struct tensor_file *f, const char *name);
const char *tensor_file_meta(const struct tensor_file *f, const char *key);
size_t tensor_type_size(enum tensor_type type);      /* bytes of one value */
const char *tensor_type_name(enum tensor_type type); /* "BF16" */
size_t tensor_count(const struct tensor_view *t);    /* product of the shape */
size_t tensor_bytes(const struct tensor_view *t);
double tensor_value(const struct tensor_view *t, size_t i); /* of any type; I64 beyond 2^53 is rounded */
/* "(784, 128)" */
const char *tensor_shape_text(char out[TENSOR_SHAPE_TEXT], const struct tensor_view *t);

#endif
