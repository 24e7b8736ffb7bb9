/* verbs -- the commands of job_submit, and their table. The verb NAME is verb_NAME() in verb_NAME.c; it
 * returns an exit status, or a negative err_code with a message. A further verb is that file, its declaration
 * here, and a line in verb_table.c. */
#ifndef PSGD_SUBMIT_VERBS_H
#define PSGD_SUBMIT_VERBS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "submit/options/submit_options.h"

/* The headings of `job_submit help`, in this order. */
enum verb_group { OF_JOBS, OF_RUNNING, OF_RESULTS, OF_PARTS, OF_MACHINES, OF_ITSELF, N_VERB_GROUPS };

struct verb {
    const char *name;
    int (*run)(const struct options *o, struct err *e);
    enum {
        SHOWS,
        WORKS
    } purpose; /* SHOWS: the verb only prints; WORKS: it does more, and the output only reports it */
    uint64_t options;
    int max_operands; /* ARGS_OPERANDS: any number, or the verb checks them itself */
    const char *operands, *help;
    enum verb_group group;
};

extern const struct verb verbs[];
extern const int n_verbs;
extern const char *const verb_groups[]; /* their headings */

/* NULL: there is no such verb. ERR_USAGE: the message suggests one. */
const struct verb *verb_find(const char *name, struct err *e);
/* The operands of a verb that does several things, a line each; NULL: the verb has only its `operands`. */
const char *verb_forms(const struct verb *v);
void verb_print_help(FILE *f, const struct verb *v);
void verb_print_all(FILE *f);

int verb_submit(const struct options *o, struct err *e);
int verb_pack(const struct options *o, struct err *e);
int verb_run_ranks(const struct options *o, struct err *e);
int verb_run(const struct options *o, struct err *e);
int verb_list(const struct options *o, struct err *e);
int verb_move(const struct options *o, struct err *e);
int verb_queue(const struct options *o, struct err *e);
int verb_checkpoint(const struct options *o, struct err *e);
int verb_resume(const struct options *o, struct err *e);
int verb_status(const struct options *o, struct err *e);
int verb_wait(const struct options *o, struct err *e);
int verb_browse(const struct options *o, struct err *e);
int verb_report(const struct options *o, struct err *e);
int verb_logs(const struct options *o, struct err *e);
int verb_cancel(const struct options *o, struct err *e);
int verb_fetch(const struct options *o, struct err *e);
int verb_snapshot(const struct options *o, struct err *e);
int verb_validate(const struct options *o, struct err *e);
int verb_simulate(const struct options *o, struct err *e);
int verb_data(const struct options *o, struct err *e);
int verb_codecs(const struct options *o, struct err *e);
int verb_doctor(const struct options *o, struct err *e);
int verb_join(const struct options *o, struct err *e);
int verb_agents(const struct options *o, struct err *e);
int verb_why(const struct options *o, struct err *e);
int verb_compare(const struct options *o, struct err *e);
int verb_note(const struct options *o, struct err *e);
int verb_hide(const struct options *o, struct err *e);
int verb_unhide(const struct options *o, struct err *e);
int verb_delete(const struct options *o, struct err *e);
int verb_undelete(const struct options *o, struct err *e);
int verb_tag(const struct options *o, struct err *e);
int verb_config(const struct options *o, struct err *e);
int verb_sweep(const struct options *o, struct err *e);
int verb_plot(const struct options *o, struct err *e);
int verb_rerun(const struct options *o, struct err *e);
int verb_launch(const struct options *o, struct err *e);
int verb_predict(const struct options *o, struct err *e);
int verb_export(const struct options *o, struct err *e);
int verb_model(const struct options *o, struct err *e);
int verb_generate(const struct options *o, struct err *e);

int verb_help(const struct options *o, struct err *e);
int verb_version(const struct options *o, struct err *e);

/* What verbs share. */

struct job_node;
struct submission;
struct model_spec;
struct tensor_file;
struct run;

/* codecs new: writes NAME.c into the working directory and prints the next steps. The kind is the third
 * operand, or asked for. ERR_USAGE: not a valid name or kind; ERR_CONFLICT: the file exists; ERR_IO. */
int verb_data_tokenize(const struct options *o, struct err *e);
int verb_codecs_new(const struct options *o, const char *name, struct err *e);
/* codecs test: runs the checks of a codec, `text`: "NAME|FILE[:KEY=VALUE,...]". Prints a line for each check,
 * or JSON. Returns 0; EXIT_JOB_FAILED if a check has failed; ERR_CODEC (the codec does not load), ERR_USAGE,
 * ERR_CANCELLED, ERR_IO, ERR_NOMEM. */
int verb_codecs_test(const struct options *o, const char *text, struct err *e);

/* ERR_USAGE: operands, which are for a training program, and the job has none. */
int verb_check_arguments(const struct options *o, struct err *e);
/* Checks the job that the options describe and writes it into the folder of -o, else s->job_folder; `s` is
 * initialized otherwise. */
int verb_pack_job(struct submission *s, struct err *e);
/* Submits the job that the options describe; for submit and run. */
int verb_submit_job(const struct options *o, struct err *e);
/* Prints the commands that follow a job which this program leaves to its nodes. */
void verb_print_next_commands(const struct submission *s);
/* Ships and starts a job whose nodes are reserved, and begins its results. Without s->is_started a node has
 * ended before the start. */
int verb_start_placed(struct submission *s, struct err *e);
/* After an error before the start: releases the reservations, removes the folder of the results, and returns
 * e->code. */
int verb_undo(struct submission *s, struct err *e);
/* Runs a further attempt of a job that has failed, and returns its exit status. An error: it cannot be
 * started, and changes neither the job's state nor its results. */
int verb_next_attempt(struct submission *s, struct err *e);
/* The end of submit and wait: watches the job, collects and prints its results; also handles a signal or
 * --timeout while watching. */
int verb_finish(struct submission *s, struct err *e);
/* The rest of it: collects and prints the results of a job that has ended. */
int verb_conclude(struct submission *s, struct err *e);
/* Exit status of an ended job, from its state and whether all its results are complete. */
int verb_exit_status(const struct submission *s);
/* Prints the contents of run.json on stdout: as JSON with --json, else as a table. */
void verb_show_run(bool ok, const struct submission *s);

/* Reads and checks the job of a simulation, and runs nothing. */
int verb_simulate_check(const struct options *o, struct err *e);

/* Joins an agent by an invitation; "-": the line on standard input; NULL is refused. */
int verb_join_by(const char *invitation, struct err *e);

/* NULL, ERR_USAGE: the job has no such node. */
struct job_node *verb_node_of_job(struct submission *s, int node, struct err *e);
/* The point of the training at which a model was written. */
struct verb_moment {
    unsigned long long epoch, step;
};
/* Downloads the model of a node of a running job into the caller's file. Errors as the agent's answers, and
 * ERR_CONFIG: the file has no epoch and step. */
int verb_take_snapshot(struct verb_moment *out, struct submission *s, struct job_node *n, int fd,
                       struct err *e);

/* *out: the model of a file of weights or of a checkpoint, from its metadata; model_spec_free() frees it.
 * ERR_CONFIG: the file has no model's document, or its tensors are not the parameters of that model. */
int verb_model_of_weights(struct model_spec **out, const struct tensor_file *f, struct err *e);
/* Prints name, input and loss on stdout, a row per layer, and the number of parameters. Of a training
 * program's model: a row per tensor. */
void verb_model_print(const struct model_spec *m);
/* An array of the layers: index, kind, shapes in and out, parameters, tensors. The caller owns it. */
json_t *verb_model_layers(const struct model_spec *m);

/* Replaces a label, `key` "note" or "tags", of the run that the first operand names, by `value`, whose
 * ownership it takes, and prints the run's labels. Errors as of run_find() and run_label_set(). */
int verb_label(const struct options *o, const char *key, json_t *value, struct err *e);

#endif
