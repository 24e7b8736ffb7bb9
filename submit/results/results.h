/* results -- the result folder of a job. File names are fixed here and never come from the network; files
 * are always newly created (O_EXCL, O_NOFOLLOW), and no link is followed. */
#ifndef PSGD_SUBMIT_RESULTS_H
#define PSGD_SUBMIT_RESULTS_H

#include "submit/job/submission.h"

#define REPORT_NAME      "report.html" /* the page of the job, of browse/report_file.h */
#define RESULTS_ATTEMPTS "attempts"    /* the folder of the results of earlier attempts */

/* Chooses and creates the folder, so that errors are found early. ERR_IO; ERR_CONFLICT: it is not empty. */
int results_prepare(struct submission *s, struct err *e);
/* Removes what results_prepare created, if still empty. */
void results_abandon(struct submission *s);
/* The run.json of a folder that holds all final results of the job; otherwise NULL. The caller owns it. */
json_t *results_kept(const struct submission *s);
/* Points logs/latest at the folder and begins logs/submit.log. */
int results_begin(struct submission *s, struct err *e);

/* A file of the folder is written whole or not at all: it has a temporary name until results_seal, and one
 * of an earlier fetch stays until then. The caller owns the descriptor. */
int results_create(const struct submission *s, const char *name, int *fd, struct err *e);
/* Closes the file, gives it its name, and adds it to the list of files with its length and SHA-256. */
int results_seal(struct submission *s, const char *name, int fd, struct err *e);
/* Closes and removes what results_create has made. */
void results_drop(const struct submission *s, const char *name, int fd);
int results_write(struct submission *s, const char *name, const char *text, size_t len, struct err *e);
/* Adds a file that is there, of another program, to the list. ERR_NOT_FOUND. */
int results_list(struct submission *s, const char *name, struct err *e);

/* The folder of an earlier attempt's results. */
int results_of_attempt(char out[PATH_MAX], const struct submission *s, int attempt, struct err *e);

#endif
