/* trace_file -- trace.bin, the times of a node's work for `job_submit --trace`: a head, then at most
 * TRACE_RECORDS_MAX records of fixed size, one for each span or message, in the order of their ends.
 * Little-endian. Times are nanoseconds of the machine's CLOCK_MONOTONIC. */
#ifndef PSGD_TRACE_FILE_H
#define PSGD_TRACE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/job/comm.h"

enum {
    TRACE_RECORDS_MAX = 1 << 18, /* of a node: 10 MiB; later records are counted and dropped */
    TRACE_CLOCK_ID = 44,
    TRACE_HEAD_BYTES = 64,
    TRACE_RECORD_BYTES = 40
};

/* Values below N_PHASES: a span in that phase. */
enum trace_kind { TRACE_STEP = N_PHASES, TRACE_SENT, TRACE_RECEIVED, N_TRACE_KINDS };

struct trace_head {
    char magic[8]; /* "PSGDTRC1" */
    int32_t node;
    char clock_id[TRACE_CLOCK_ID]; /* nodes with the same identifier share a clock; "": unknown */
    uint64_t n_dropped;
};
_Static_assert(sizeof(struct trace_head) == TRACE_HEAD_BYTES, "the layout of the file");

struct trace_record {
    uint64_t begin_ns;
    uint64_t end_ns;      /* of a message: its number between the two nodes, from 1 */
    uint64_t step, round; /* from 1; 0: outside of steps, before the first round */
    int32_t peer;         /* of a message: the other node */
    uint8_t kind, reserved[3];
};
_Static_assert(sizeof(struct trace_record) == TRACE_RECORD_BYTES, "the layout of the file");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file has the byte order of memory");

void trace_head_init(struct trace_head *h, int node);
/* Writes an identifier of this process' CLOCK_MONOTONIC: the machine's boot, and its time namespace. "" if
 * not available. */
void trace_clock_id(char out[TRACE_CLOCK_ID]);

/* Parses a whole file of node `node`: sets *h to its head and *records to its (n) records within `bytes`,
 * which belong to the caller. Ignores a truncated last record, left by a writer that died. ERR_PROTOCOL:
 * not such a file, or a record with an invalid kind or times. */
int trace_file_parse(struct trace_head *h, const struct trace_record **records, size_t *n, int node,
                     const void *bytes, size_t len, struct err *e);

#endif
