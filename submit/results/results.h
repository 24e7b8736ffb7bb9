/* results -- the folder a job's results go to. Names in it are fixed here and never come from the network;
 * files are made anew (O_EXCL, O_NOFOLLOW). */
#ifndef PSGD_SUBMIT_RESULTS_H
#define PSGD_SUBMIT_RESULTS_H

#include "submit/stages/submission.h"

enum { RUN_JSON_MAX = 64 << 20 };

/* Chooses and makes the folder, to find out now whether that works. ERR_IO; ERR_CONFLICT: there is something
 * in it. */
int results_prepare(struct submission *s, struct err *e);
/* Takes away what results_prepare made, while it is empty. */
void results_abandon(struct submission *s);
/* The run.json of a folder that holds all results of the job as it ended; else NULL. The caller's. */
json_t *results_kept(const struct submission *s);
/* Points logs/latest at the folder and begins logs/submit.log. */
int results_begin(struct submission *s, struct err *e);

/* A new file of the folder, in place of one of an earlier fetch. The descriptor is the caller's. */
int results_create(const struct submission *s, const char *name, int *fd, struct err *e);
/* Closes it and enters it in the list of files with its length and sum. */
int results_seal(struct submission *s, const char *name, int fd, struct err *e);
int results_write(struct submission *s, const char *name, const char *text, size_t len, struct err *e);

#endif
