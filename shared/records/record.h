/* record -- the CSV files of a job: their columns, a writer and a reader. One list per file has each column's
 * name, type and meaning; the row's struct, header, writer and docs are generated from it. A new column is a
 * line there and its value where the row is made, a new file is a list and a line in RECORD_FILES. Later
 * versions only append columns.
 *
 * The files are RFC 4180 with LF and '.' in numbers, floats as %.9g (which reads back to the same float32); a
 * missing value is empty, a number that is not finite is `nan`, `inf` or `-inf`. */
#ifndef PSGD_RECORD_H
#define PSGD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* RECORD_LINE is a text of any length, in the form of record_put_line(). */
enum record_type {
    RECORD_TEXT,
    RECORD_INT,
    RECORD_U64,
    RECORD_FLOAT,
    RECORD_SECONDS,
    RECORD_SPAN,
    RECORD_LINE
};

struct record_column {
    const char *name;
    /* const char *, int, uint64_t, double, double (6 decimals), double (9), const char * */
    enum record_type type;
    size_t offset;
    const char *help; /* meaning and unit */
};

/* The columns of each file: C(row, name, type, help). */
/* clang-format off */
#define RECORD_TRAIN_COLUMNS(C, row) \
    C(row, time_s, SECONDS, "since training began on this node") \
    C(row, node, INT, "0, 1, ... a worker; -2, -3, ... a server") \
    C(row, role, TEXT, "worker or server") \
    C(row, epoch, INT, "from 1") \
    C(row, batch, U64, "from 1 in the epoch") \
    C(row, batches, U64, "in an epoch") \
    C(row, step, U64, "from 1 in the job") \
    C(row, samples, U64, "seen by this node so far") \
    C(row, loss, FLOAT, "mean over the batch, before the update") \
    C(row, accuracy, FLOAT, "over the batch, before the update, 0 to 1; empty as in eval.csv") \
    C(row, lr, FLOAT, "learning rate of this step") \
    C(row, grad_norm, FLOAT, \
      "Euclidean norm of the gradient for the update, before it was clipped; of the worker's own gradient " \
      "if servers update (ps)") \
    C(row, compute_s, SPAN, "local work: batch, forward, backward, checks, this file") \
    C(row, encode_s, SPAN, "the codec writing its messages") \
    C(row, send_s, SPAN, "passing its messages to the network") \
    C(row, wait_s, SPAN, "waiting for other nodes, while the network sends and receives") \
    C(row, decode_s, SPAN, "the codec reading received messages") \
    C(row, raw_bytes, U64, "sent in this step, before compression and headers") \
    C(row, sent_bytes, U64, "passed to other nodes, by connections or through shared memory") \
    C(row, recv_bytes, U64, "of the messages used in this step") \
    C(row, apply_s, SPAN, "updating the model: the codec's apply and adopt, the optimizer") \
    C(row, tokens, U64, "of text, in the steps of all workers so far; 0 where the samples are no text")

#define RECORD_EVAL_COLUMNS(C, row) \
    C(row, time_s, SECONDS, "since training began on this node") \
    C(row, node, INT, "the node that evaluated") \
    C(row, epoch, INT, "the epoch of that step, from 1") \
    C(row, step, U64, "the last step before the evaluation") \
    C(row, samples, U64, "training samples seen by this node so far") \
    C(row, loss, FLOAT, "mean over the test set") \
    C(row, accuracy, FLOAT, "over the test set, 0 to 1; empty where there are targets, not labels") \
    C(row, sent_bytes_total, U64, "so far") \
    C(row, recv_bytes_total, U64, "so far") \
    C(row, tokens, U64, "as in train.csv") \
    C(row, perplexity, FLOAT, "exp(loss) of a model of language; else empty") \
    C(row, bits_per_byte, FLOAT, \
      "loss in bits, divided by the bytes of text of a token of the test set; empty as perplexity")

#define RECORD_COMM_COLUMNS(C, row) \
    C(row, time_s, SECONDS, "since training began on this node, at the end of the round") \
    C(row, round, U64, \
      "from 1; a rule that acts on events has a round per step, and one for what follows the last step") \
    C(row, node, INT, "the node that recorded the row") \
    C(row, peer, INT, "the other node") \
    C(row, direction, TEXT, "sent or received") \
    C(row, messages, U64, "") \
    C(row, raw_bytes, U64, "before compression and headers") \
    C(row, wire_bytes, U64, "after compression, with frame headers") \
    C(row, encode_s, SECONDS, "sent: the codec writing the messages") \
    C(row, transfer_s, SECONDS, "sent: passing the messages to the network; received: waiting for them")

#define RECORD_METRIC_COLUMNS(C, row) \
    C(row, time_s, SECONDS, "since training began on this node") \
    C(row, node, INT, "the node that evaluated") \
    C(row, epoch, INT, "the epoch of that step, from 1") \
    C(row, step, U64, "the last step before the evaluation") \
    C(row, metric, TEXT, "name of the metric in the model's document, or that the program gives") \
    C(row, value, FLOAT, "over the test set, or the program's; empty if the test set does not define it")

#define RECORD_CONFUSION_COLUMNS(C, row) \
    C(row, node, INT, "the node that evaluated") \
    C(row, epoch, INT, "the epoch of that step, from 1") \
    C(row, step, U64, "the last step before the evaluation") \
    C(row, label, INT, "label of the counted test samples") \
    C(row, predicted, INT, "the class that the model predicts") \
    C(row, count, U64, "number of these samples; pairs without samples have no row")

#define RECORD_CODEC_COLUMNS(C, row) \
    C(row, time_s, SECONDS, "since training began on this node") \
    C(row, node, INT, "the node of the codec") \
    C(row, step, U64, "steps done by this node; 0 on a server") \
    C(row, round, U64, "rounds closed so far") \
    C(row, name, TEXT, "name of the value, chosen by the codec") \
    C(row, value, FLOAT, "")

#define RECORD_SAMPLE_COLUMNS(C, row) \
    C(row, time_s, SECONDS, "since training began on this node") \
    C(row, node, INT, "the node that evaluated") \
    C(row, epoch, INT, "the epoch of that step, from 1") \
    C(row, step, U64, "the last step before the evaluation") \
    C(row, prompt, LINE, "--sample-prompt; a byte that is not printable ASCII, and , \" and %, is %XX") \
    C(row, text, LINE, "with which the model went on, in the same form")

/* All files: FILE(ID, name, struct, columns, flags, max, help): ARTIFACT_ID, and the fields of struct
 * artifact (artifacts.h). */
#define RECORD_FILES(FILE) \
    FILE(TRAIN, "train", record_train, RECORD_TRAIN_COLUMNS, NEEDED, 2 * GIB, \
         "one row per recorded step and worker") \
    FILE(EVAL, "eval", record_eval, RECORD_EVAL_COLUMNS, NEEDED, GIB, \
         "one row per evaluation on the test set") \
    FILE(COMM, "comm", record_comm, RECORD_COMM_COLUMNS, OF_SERVERS | OF_EXECUTORS | NEEDED, 2 * GIB, \
         "one row per round, peer and direction: messages and bytes") \
    FILE(METRICS, "metrics", record_metric, RECORD_METRIC_COLUMNS, 0, GIB, \
         "one row per evaluation and metric that the model requests, or value that a program logs") \
    FILE(CONFUSION, "confusion", record_confusion, RECORD_CONFUSION_COLUMNS, 0, GIB, \
         "one row per evaluation and occurring pair of label and predicted class") \
    FILE(CODEC_RECORDS, "codec", record_codec, RECORD_CODEC_COLUMNS, OF_SERVERS, GIB, \
         "one row per value that the codec records") \
    FILE(SAMPLES, "samples", record_sample, RECORD_SAMPLE_COLUMNS, 0, GIB, \
         "one row per evaluation: the text with which the model goes on, with --sample-prompt")

/* The type of a column in the row's struct. */
#define RECORD_IN_TEXT    const char *
#define RECORD_IN_INT     int
#define RECORD_IN_U64     uint64_t
#define RECORD_IN_FLOAT   double
#define RECORD_IN_SECONDS double
#define RECORD_IN_SPAN    double
#define RECORD_IN_LINE    const char *
/* clang-format on */

#define FIELD(row, name, type, help) RECORD_IN_##type name;
#define RECORD_FILE(ID, file, row, columns, ...)                                                             \
    struct row {                                                                                             \
        columns(FIELD, row)                                                                                  \
    };                                                                                                       \
    extern const struct record_column row##_columns[]; /* ends with {0} */
RECORD_FILES(RECORD_FILE)
#undef RECORD_FILE
#undef FIELD

#define RECORD_SIM_TIME "sim_time_s" /* the column that a simulation appends, in simulated seconds */
#define RECORD_MISSING  (-1e300)     /* an empty float or seconds cell */
enum { RECORD_HELD = 1 << 16, RECORD_COLUMNS_MAX = 32 /* 30 of a job, one of a simulation, {0} */ };

/* A file that is written. Rows are buffered until record_flush(), or until there are RECORD_HELD bytes, and
 * then appended to the file (O_APPEND) with one write(2): flushed rows survive the end of the process. */
struct record_file {
    const struct record_column *columns;
    const char *path;
    int fd;
    uint64_t bytes; /* written so far */
    char *text;     /* buffered rows; the memory is kept, so that a steady run does not allocate */
    size_t text_size, n_held;
};

/* A cell's bytes, without a NUL at the end. len is 0 if the column or the value is missing. */
struct record_text {
    const char *text;
    size_t len;
};

/* out (at least 3 n + 1 bytes): the bytes as a cell of type RECORD_LINE. */
void record_put_line(char *out, const void *bytes, size_t n);
/* out (at least len bytes, without a zero byte): the bytes of such a cell. Returns their number. A % without
 * two digits is one. */
size_t record_line_bytes(char *out, const struct record_text *cell);

/* Creates the file, which must not exist, and writes the header. `path` must outlive *f. */
int record_open(struct record_file *f, const char *path, const struct record_column *columns, struct err *e);
/* Adds n rows of `size` bytes each. record_write and record_flush: ERR_NOSPACE, the disk is full; the file
 * keeps whole rows only. */
int record_write(struct record_file *f, const void *rows, size_t size, size_t n, struct err *e);
int record_flush(struct record_file *f, struct err *e); /* buffered rows to the file */
int record_sync(struct record_file *f, struct err *e);  /* the file to the disk */
void record_close(struct record_file *f);               /* buffered rows are lost */

/* Reading, by whatever program the file was written: chosen columns of each row, in one pass and in constant
 * memory. A file of 10^6 rows takes some 0.2 s. A last row without a line feed is left out, because its
 * writer may be at work; columns that were not chosen are skipped; a row that ends before a column has an
 * empty cell there. */
enum {
    RECORD_SCAN_COLUMNS = 32, /* chosen columns, at most */
    RECORD_SCAN_WIDTH = 128,  /* columns of a file, at most */
    RECORD_SCAN_ROW = 1 << 16 /* bytes of a row, at most */
};

struct record_scan {
    const char *what;           /* the file's name in messages */
    const char *const *columns; /* names of the chosen columns, all different */
    size_t n;
    uint32_t needed; /* bit k: the file must have columns[k] */
    bool is_exact;   /* the file must have these columns, in this order, and no other */
    /* Leaves out each row with another number of cells than the header, or with a byte that record_write()
     * never writes: a quote, or one that is not printable ASCII. */
    bool is_strict;
    size_t *n_left_out; /* counts the rows that is_strict leaves out; NULL: they are not counted */
    /* Called with each row's cells, in the order of `columns`; an error ends the scan. */
    int (*row)(void *ctx, const struct record_text *cells, struct err *e);
    void *ctx;
};

/* Scans an open regular file, from its beginning (pread), or text that begins with a header; an empty one has
 * no rows. ERR_PROTOCOL: a needed column is missing, the columns are not exactly these, or a limit above is
 * exceeded. ERR_IO, ERR_NOMEM. */
int record_scan_file(const struct record_scan *s, int fd, struct err *e);
int record_scan_text(const struct record_scan *s, const char *text, size_t len, struct err *e);

/* Returns a cell's number, correctly rounded, which may be NaN or infinite; RECORD_MISSING if the cell is
 * empty or not a number. */
double record_number(const struct record_text *cell);

#endif
