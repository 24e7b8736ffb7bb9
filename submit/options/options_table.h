/* options_table -- the table of options, for the files that read or write them (options_*.c). */
#ifndef PSGD_SUBMIT_OPTIONS_TABLE_H
#define PSGD_SUBMIT_OPTIONS_TABLE_H

#include "shared/base/args.h"
#include "submit/options/submit_options.h"

enum { JOB, SIMULATED, CHECKED, WHERE, RESULTS, OUTPUT }; /* groups */

extern const struct args options_table;

#define RETRY_ON_DEFAULT "node_lost,interrupted,agent_restarted,agent_stopped"
#define RETRY_ON_NAMES                                                                                       \
    "node_lost|runner_died|oom|interrupted|agent_restarted|agent_stopped|round_timeout|disk_full|"           \
    "journal_failed|trainer_failed,..."

/* Completes the table, and sets all options to their defaults. */
void options_defaults(struct options *o);

/* Is the option of the member at `offset` on this command line, or in the object of --config? */
bool options_is_given(const struct options *o, size_t offset);

/* True if a document of --config may have the option for this verb: options of the job, and of where it
 * runs. */
bool options_in_config(const struct args_option *t, uint64_t verb);
/* The option's key there: its first name, with '_'. */
void options_config_key(char out[ARGS_NAME], const struct args_option *t);
/* The key of the setting that it sets, in the settings of run.json; NULL: none. */
const char *options_setting_key(const struct args_option *t);

/* True if run.json and the echo at the start of this job list the option. */
bool options_is_shown(const struct options *o, const struct args_option *t);

/* options_record.c: the options in the run.json of an earlier job. Refuses options of a resumed job that
 * differ from the earlier job and may not. Repeating an unchanged value is allowed. */
int options_check_resume(const struct options *o, const struct options *earlier, struct err *e);
/* Takes all options of an earlier job that `verb` has, over the defaults. ERR_CONFIG: the job ran an
 * executor, and the verb does not. */
int options_take_texts(struct options *o, uint64_t verb, const json_t *texts, struct err *e);
/* Takes those of the job in `folder`, except the ones that are `given` (by index in the table) and may
 * differ; `without_agents`: not the list of agents either. o->document: its run.json. */
int options_take_earlier(struct options *o, bool without_agents, const bool *given, const char *folder,
                         struct err *e);
/* If the command line has no operands, takes the arguments of the executor, or of the training program, of
 * the job whose run.json is `doc`, into which they point; and the digest of that program. */
void options_take_arguments(struct options *o, const json_t *doc);
/* Takes those of the run.json `doc`, in `folder`, to repeat the job; arguments and errors as for
 * options_take_document(). */
int options_take_run(struct options *o, uint64_t verb, const json_t *doc, const char *folder, bool is_changed,
                     struct err *e);

#endif
