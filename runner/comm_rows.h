/* comm_rows -- the messages between a node and a peer in the last completed round, as rows of comm.csv: for
 * a runner's own file and for a simulation's. */
#ifndef PSGD_COMM_ROWS_H
#define PSGD_COMM_ROWS_H

#include "runner/exchange/exchange.h"
#include "shared/records/record.h"

/* `row` has time, round, node and peer. Returns the number of rows: one for each direction with at least
 * one message. */
size_t comm_rows(struct record_comm out[2], const struct exchange *x, struct record_comm row);

#endif
