/* records -- a simulation's CSV files: those of a job, all nodes' rows in the order of simulated time,
 * with one column more. All times in them are simulated; sim_time_s is the moment since the simulation's
 * beginning. */
#ifndef PSGD_SIM_RECORDS_H
#define PSGD_SIM_RECORDS_H

#include "shared/err.h"

struct codec;
struct sim;
struct sim_node;
struct sim_records;

/* Makes records/train.csv, eval.csv and comm.csv in the present folder. */
int sim_records_open(struct sim_records **out, struct err *e);
/* Writes what is held, and frees it also when that fails. */
int sim_records_close(struct sim_records *r, struct err *e);

int sim_record_step(struct sim_records *r, const struct sim *s, const struct sim_node *n, struct err *e);
int sim_record_evaluation(struct sim_records *r, const struct sim_node *n, struct err *e);
/* Of a round that is done, if one is. */
int sim_record_comm(struct sim_records *r, const struct sim *s, const struct sim_node *n, struct err *e);
/* A row of codec.csv, which is made at the first one. */
int sim_record_codec(struct sim_records *r, const struct sim_node *n, const struct codec *c, const char *name,
                     double value, struct err *e);

#endif
