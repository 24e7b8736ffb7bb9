/* results -- the result folder of a job: its subfolders, its files, which are written whole or not at all,
 * and the checkpoints in it. The network supplies no file name, files are created new (O_EXCL, O_NOFOLLOW),
 * and no link is followed. */
#ifndef PSGD_SUBMIT_RESULTS_H
#define PSGD_SUBMIT_RESULTS_H

#include "shared/records/tensor_file.h"
#include "submit/job/submission.h"

#define REPORT_NAME      "report.html" /* browse/report_page.h writes it */
#define RESULTS_ATTEMPTS "attempts"    /* the folder of the results of earlier attempts */

/* Chooses and creates the folder before the job starts. ERR_IO; ERR_CONFIG: its path is not UTF-8;
 * ERR_CONFLICT: it is not empty, and has no results of this job. */
int results_prepare(struct submission *s, struct err *e);
/* Makes the subfolders again, after the results of an attempt were moved aside. ERR_IO. */
int results_make_parts(struct submission *s, struct err *e);
/* Removes the folders that results_prepare created, if they are still empty. */
void results_abandon(struct submission *s);
/* The run.json of the folder, which the caller owns, if all final results of the job are there; else NULL. */
json_t *results_kept(const struct submission *s);
/* Links logs/latest to the folder and begins logs/submit.log. */
int results_begin(struct submission *s, struct err *e);

/* Creates a file under a temporary name; results_seal() replaces a file of an earlier fetch by it. The caller
 * owns the descriptor. */
int results_create(const struct submission *s, const char *name, int *fd, struct err *e);
/* Closes the file, gives it its name, and adds it with its length and SHA-256 to the list in run.json. */
int results_seal(struct submission *s, const char *name, int fd, struct err *e);
/* Closes and removes the file of results_create(). */
void results_drop(const struct submission *s, const char *name, int fd);
/* The whole file at once. */
int results_write(struct submission *s, const char *name, const char *text, size_t len, struct err *e);
/* Adds a file that another program has written to the list. ERR_NOT_FOUND. */
int results_list(struct submission *s, const char *name, struct err *e);

/* The folder of an earlier attempt's results. */
int results_of_attempt(char out[PATH_MAX], const struct submission *s, int attempt, struct err *e);

/* "checkpoints/node-1.safetensors", for a server "checkpoints/ps-0.safetensors"; `ending`: "" or
 * CHECKPOINT_PREVIOUS, the second last checkpoint of the node. */
#define CHECKPOINT_PREVIOUS "-previous"
void checkpoint_file_name(char out[64], int node, const char *ending);

/* The point of a job at which a checkpoint was made. Checkpoints of all nodes are of one point if job and
 * round are equal, and, of workers, the step: a server may have saved a round under a later step. */
struct checkpoint_position {
    char job[64], epoch[24], step[24], round[24];
};
void checkpoint_position_of(struct checkpoint_position *out, const struct tensor_file *f);
bool checkpoint_is_at(const struct tensor_file *f, const struct checkpoint_position *p, int node);
/* Has the folder checkpoints of all n nodes of one point? *step: its step. */
bool checkpoint_find_common(uint64_t *step, const char *folder, const struct job_node *nodes, size_t n);

#endif
