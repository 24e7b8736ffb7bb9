/* trained_model -- the model of a file of weights, for the verbs that apply it: where it is, the job that has
 * made it, and its preprocessing record. */
#ifndef PSGD_SUBMIT_TRAINED_MODEL_H
#define PSGD_SUBMIT_TRAINED_MODEL_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

#include "shared/base/err.h"
#include "shared/job/model_spec.h"
#include "shared/records/tensor_file.h"
#include "submit/data/preprocessing.h"

struct trained_model { /* {0} is empty */
    char path[PATH_MAX];
    char job[PATH_MAX]; /* the folder of that job's results; "": not known */
    struct tensor_file file;
    struct model_spec *spec;
    struct preprocessing record;
    bool has_record;
};

/* Sets path and job. The operand is the file of a model, or a folder of results. ERR_NOT_FOUND. */
int trained_model_find(struct trained_model *m, const char *operand, struct err *e);
/* *run: the run.json of its job, for the caller; NULL: the job is not known. ERR_CONFIG, ERR_IO. */
int trained_model_run(json_t **run, const struct trained_model *m, struct err *e);
/* Opens the file. `run`: of a file that another program has written, and which has no record, the job's is
 * used; may be NULL. ERR_CONFIG: no file of weights of a model, or one of a training program. */
int trained_model_open(struct trained_model *m, const json_t *run, struct err *e);
/* Puts it into the folder of the program that computes (helper_program.h): model.json, and
 * weights.safetensors, a symbolic link. */
int trained_model_put(const struct trained_model *m, const char *folder, struct err *e);
void trained_model_clear(struct trained_model *m);

#endif
