/* comm_rows -- what a node and a peer told each other in the round that is done, as rows of comm.csv: for a
 * runner's own file and a simulation's. */
#ifndef PSGD_COMM_ROWS_H
#define PSGD_COMM_ROWS_H

#include "agent/runner/exchange/exchange.h"
#include "shared/record.h"

/* `row` says when, which round, node and peer. Returns the number of rows: one for each direction in which
 * there was a message. */
size_t comm_rows(struct record_comm out[2], const struct exchange *x, struct record_comm row);

#endif
