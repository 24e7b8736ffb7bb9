/* records -- CSV files of single nodes become files of the job. */
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

/* Copies the whole rows of one node's file behind the header. Rows with another number of cells or with
 * anything but printable ASCII are left out and counted in *bad. ERR_PROTOCOL: another header, or a row of
 * another node; nothing is written then. */
int records_append(FILE *out, enum record_kind kind, int node, const char *text, size_t len, size_t *bad,
                   struct err *e);

/* What one node's comm.csv says in sum of each peer, in the order in which they appear:
 * [{"peer","sent_messages","sent_raw_bytes","sent_bytes","recv_messages","recv_raw_bytes","recv_bytes"}].
 * NULL: no memory. */
json_t *records_peers(const char *text, size_t len);

/* The ancestor's files of one node: "Time,Epoch,Batch,Total Batch,loss,accuracy" out of train.csv,
 * "loss,accuracy" out of eval.csv. */
int records_classic(FILE *out, enum record_kind kind, const char *text, size_t len);

/* "T-N(2)-R(1)-ID(0)-CODEC(ffff).csv"; one letter of the codec for each dense layer. */
void records_classic_name(char *out, size_t size, enum record_kind kind, int node_count, int redundancy,
                          int node, const char *codec, int n_dense);

#endif
