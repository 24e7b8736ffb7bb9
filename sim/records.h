/* records -- a simulation's CSV files: those of a job, with all nodes' rows in the order of simulated time,
 * and one more column. All times are simulated; sim_time_s is the time since the simulation began. */
#ifndef PSGD_SIM_RECORDS_H
#define PSGD_SIM_RECORDS_H

#include "shared/base/err.h"
#include "shared/records/record.h"

struct sim;
struct sim_node;
struct sim_records;

/* Makes records/train.csv, eval.csv and comm.csv in the current folder. */
int sim_records_open(struct sim_records **out, struct err *e);
/* Writes buffered rows and frees *r, also on failure. */
int sim_records_close(struct sim_records *r, struct err *e);

int sim_record_step(struct sim_records *r, const struct record_train *job, struct err *e);
int sim_record_evaluation(struct sim_records *r, const struct sim_node *n, struct err *e);
/* Records a completed round, if there is one. */
int sim_record_comm(struct sim_records *r, const struct sim *s, const struct sim_node *n, struct err *e);

#endif
