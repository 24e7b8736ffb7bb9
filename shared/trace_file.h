/* trace_file -- what a node writes down of its time for `job_submit --trace`: trace.bin, a head and then
 * one record of fixed size for each span or message, in the order they ended. Little-endian. Times are
 * nanoseconds of the machine's CLOCK_MONOTONIC. */
#ifndef PSGD_TRACE_FILE_H
#define PSGD_TRACE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "shared/err.h"
#include "shared/phase.h"

enum {
    TRACE_RECORDS_MAX = 1 << 18, /* of a node: 10 MiB; what comes later is counted and not kept */
    TRACE_CLOCK_ID = 44,
    TRACE_HEAD_BYTES = 64,
    TRACE_RECORD_BYTES = 40
};

/* A phase's number is a span in that phase. */
enum trace_kind { TRACE_STEP = N_PHASES, TRACE_SENT, TRACE_RECEIVED, N_TRACE_KINDS };

struct trace_head {
    char magic[8]; /* "PSGDTRC1" */
    int32_t node;
    char clock_id[TRACE_CLOCK_ID]; /* nodes with the same one share a clock; "": not known */
    uint64_t n_dropped;
};
_Static_assert(sizeof(struct trace_head) == TRACE_HEAD_BYTES, "as it lies in the file");

struct trace_record {
    uint64_t begin_ns;
    uint64_t end_ns;      /* of a message: which one it is between the two, from 1 */
    uint64_t step, round; /* from 1; 0: outside of steps, before the first round */
    int32_t peer;         /* of a message: the other end */
    uint8_t kind, reserved[3];
};
_Static_assert(sizeof(struct trace_record) == TRACE_RECORD_BYTES, "as it lies in the file");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is written as it lies in memory");

void trace_head_init(struct trace_head *h, int node);
/* What tells this process's CLOCK_MONOTONIC from others: the machine's boot, and the time namespace in it. ""
 * where the system does not say. */
void trace_clock_id(char out[TRACE_CLOCK_ID]);

/* Looks at a whole file of node `node`: head into *h, *records to (n) records within `bytes`, which stay
 * the caller's. A last record that is not whole is left out: its writer died. ERR_PROTOCOL: it is no such
 * file, or a record has a kind or times that cannot be. */
int trace_file_parse(struct trace_head *h, const struct trace_record **records, size_t *n, int node,
                     const void *bytes, size_t len, struct err *e);

#endif
