/* merged_records -- merges the nodes' CSV files. */
#ifndef PSGD_SUBMIT_MERGED_RECORDS_H
#define PSGD_SUBMIT_MERGED_RECORDS_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "shared/base/err.h"
#include "shared/records/artifacts.h"

/* For artifacts that are records. The columns as the first line of a file, with its line feed. */
void records_header(FILE *out, const struct artifact *a);

/* Appends the complete rows of one node's file, without its header. Rows that a strict scan leaves out
 * (shared/records/record_scan.h) are counted in *bad. ERR_PROTOCOL: another header, or a row
 * of another node; nothing is written then. */
int records_append(FILE *out, const struct artifact *a, int node, const char *text, size_t len, size_t *bad,
                   struct err *e);

/* Appends those rows of a merged file whose step and round, where it has them, are at most these: what an
 * earlier attempt did up to the point from which a later one went on. ERR_PROTOCOL: another header. */
int records_append_until(FILE *out, const struct artifact *a, const char *text, size_t len, uint64_t step,
                         uint64_t round, struct err *e);

/* Totals per peer in one node's comm.csv, in order of appearance:
 * [{"peer","sent_messages","sent_raw_bytes","sent_bytes","recv_messages","recv_raw_bytes","recv_bytes"}].
 * NULL: no memory. */
json_t *records_peers(const char *text, size_t len);

#endif
