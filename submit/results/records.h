/* records -- merges the nodes' CSV files. */
#ifndef PSGD_SUBMIT_RECORDS_H
#define PSGD_SUBMIT_RECORDS_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "shared/err.h"

enum record_kind {
    RECORD_TRAIN,
    RECORD_EVAL,
    RECORD_COMM,
    RECORD_METRICS,
    RECORD_CONFUSION,
    RECORD_CODEC,
    N_RECORD_KINDS
};

extern const char *const record_names[N_RECORD_KINDS]; /* "train", ... */

/* The columns of shared/record.h as the first line of a file, with its line feed. */
void records_header(FILE *out, enum record_kind kind);

/* Appends the complete rows of one node's file, without its header. Rows with a wrong number of cells or
 * with anything but printable ASCII are skipped and counted in *bad. ERR_PROTOCOL: another header, or a row
 * of another node; nothing is written then. */
int records_append(FILE *out, enum record_kind kind, int node, const char *text, size_t len, size_t *bad,
                   struct err *e);

/* Totals per peer in one node's comm.csv, in order of appearance:
 * [{"peer","sent_messages","sent_raw_bytes","sent_bytes","recv_messages","recv_raw_bytes","recv_bytes"}].
 * NULL: no memory. */
json_t *records_peers(const char *text, size_t len);

/* Parallel-SGD's files of one node: "Time,Epoch,Batch,Total Batch,loss,accuracy" from train.csv,
 * "loss,accuracy" from eval.csv. */
int records_classic(FILE *out, enum record_kind kind, const char *text, size_t len);

/* "T-N(2)-R(1)-ID(0)-CODEC(ffff).csv"; one letter of the codec for each dense layer. */
void records_classic_name(char *out, size_t size, enum record_kind kind, int node_count, int redundancy,
                          int node, const char *codec, int n_dense);

#endif
