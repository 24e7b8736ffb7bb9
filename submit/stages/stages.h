/* stages -- the stages of a job: read, check, place, ship, start, watch, collect. Each returns 0 or an error,
 * and may be called again. */
#ifndef PSGD_SUBMIT_STAGES_H
#define PSGD_SUBMIT_STAGES_H

#include "submit/job/submission.h"

/* Errors of the command are reported before those of the list of agents. */
int stage_read(struct submission *s, struct err *e);
/* The part of stage_read() that needs no list of agents. */
int stage_read_job(struct submission *s, struct err *e);
/* The options of the job as texts by their names, as run.json has them under facts. NULL: no memory. The
 * caller owns it. */
json_t *stage_read_options(const struct submission *s);
int stage_check(struct submission *s, struct err *e);
/* The part of stage_check() that creates no result folder: data, settings, nodes. */
int stage_check_job(struct submission *s, struct err *e);
/* The part of stage_check_job() that needs no nodes: settings, and the shards of the data. */
int stage_check_packages(struct submission *s, struct err *e);
/* Instead of the following ones: writes the checked job into s->job_folder. */
int stage_pack(struct submission *s, struct err *e);
/* Writes the packages and, at last, the document of the checked job into a folder that has packages/.
 * `shared`: a folder whose files the jobs of the queue share; NULL: there is none. `more`: what else the
 * document has, under "queue"; NULL: nothing. ERR_IO, ERR_NOSPACE, ERR_NOMEM. */
int stage_pack_files(const struct submission *s, const char *folder, const char *shared, json_t *more,
                     struct err *e);
int stage_place(struct submission *s, struct err *e);
int stage_ship(struct submission *s, struct err *e);
int stage_start(struct submission *s, struct err *e);
int stage_watch(struct submission *s, struct err *e);
int stage_collect(struct submission *s, struct err *e);

#endif
