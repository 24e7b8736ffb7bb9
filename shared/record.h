/* record -- the CSV files of a job. One table per file has each column's name, unit, type and offset in the
 * row's struct; header, writer and docs are generated from it. Later versions only append columns.
 *
 * Rows are buffered until record_flush(), or until RECORD_HELD bytes, and then appended to the file
 * (O_APPEND) with one write(2): flushed rows survive the end of the process. RFC 4180, LF, '.' in numbers,
 * floats as %.9g (which reads back to the same float32), a missing value is empty, a non-finite number is
 * `nan` or `inf`. */
#ifndef PSGD_RECORD_H
#define PSGD_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"

enum record_type { RECORD_TEXT, RECORD_INT, RECORD_U64, RECORD_FLOAT, RECORD_SECONDS, RECORD_SPAN };

struct record_column {
    const char *name;
    enum record_type type; /* const char *, int, uint64_t, double, double (6 decimals), double (9) */
    size_t offset;
    const char *help; /* meaning and unit */
};

struct record_train { /* one row per recorded step */
    double time_s;
    int node;
    const char *role;
    int epoch;
    uint64_t batch, batches, step, samples;
    double loss, accuracy, lr, grad_norm;
    double compute_s, encode_s, send_s, wait_s, decode_s;
    uint64_t raw_bytes, sent_bytes, recv_bytes;
    double apply_s;
};

struct record_eval { /* one row per evaluation on the test set */
    double time_s;
    int node, epoch;
    uint64_t step, samples;
    double loss, accuracy;
    uint64_t sent_bytes_total, recv_bytes_total;
};

struct record_comm { /* one row per round, peer and direction */
    double time_s;
    uint64_t round;
    int node, peer;
    const char *direction; /* "sent", "received" */
    uint64_t messages, raw_bytes, wire_bytes;
    double encode_s, transfer_s;
};

struct record_metric { /* one row per evaluation and metric of the model */
    double time_s;
    int node, epoch;
    uint64_t step;
    const char *metric;
    double value;
};

struct record_confusion { /* one row per evaluation and occurring pair of label and predicted class */
    int node, epoch;
    uint64_t step;
    int label, predicted;
    uint64_t count;
};

struct record_codec { /* one row per value recorded by a codec */
    double time_s;
    int node;
    uint64_t step, round;
    const char *name;
    double value;
};

#define RECORD_MISSING (-1e300) /* an empty float or seconds cell */
enum { RECORD_HELD = 1 << 16 };

/* Each ends with {0}. */
extern const struct record_column record_train_columns[], record_eval_columns[], record_comm_columns[],
    record_metric_columns[], record_confusion_columns[], record_codec_columns[];

struct record_file {
    const struct record_column *columns;
    const char *path;
    int fd;
    uint64_t bytes; /* written so far */
    char *text;     /* buffered rows; the memory is kept, so that a steady run does not allocate */
    size_t text_size, n_held;
};

/* Creates the file, which must not exist, and writes the header. `path` must outlive *f. */
int record_open(struct record_file *f, const char *path, const struct record_column *columns, struct err *e);
/* Adds n rows of `size` bytes each. record_write and record_flush: ERR_NOSPACE, the disk is full; the file
 * keeps whole rows only. */
int record_write(struct record_file *f, const void *rows, size_t size, size_t n, struct err *e);
int record_flush(struct record_file *f, struct err *e); /* buffered rows to the file */
int record_sync(struct record_file *f, struct err *e);  /* the file to the disk */
void record_close(struct record_file *f);               /* buffered rows are lost */

#endif
