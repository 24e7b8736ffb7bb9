/* codec_probe -- inspects a codec or an executor in a separate process, and calls the open() of a built-in
 * codec there: loading an object runs its constructors, and a broken or hostile one must not end
 * job_submit. */
#ifndef PSGD_SUBMIT_CODEC_PROBE_H
#define PSGD_SUBMIT_CODEC_PROBE_H

#include <stdbool.h>

#include "codecs/codec_events.h"
#include "shared/base/err.h"
#include "shared/job/blocks.h"
#include "shared/job/combine_path_kinds.h"
#include "shared/job/model_spec.h"
#include "shared/job/settings.h"
#include "shared/plugin/codec_options.h"

struct codec_facts {
    char name[64], source[256], equation[256], cost[256];
    bool is_executor;                                           /* only `name` is known of one */
    bool combines, has_events, has_reply, has_adopt, per_block; /* neither combines nor has_events: rounds */
    bool sends_grads, sends_params;                             /* neither: it sends nothing */
    bool overlaps, updates_on_server, is_quiescent_between_steps, has_open, sees_evaluations;
    bool has_local_steps; /* its option `every` is --local-steps */
    bool collects;        /* an event rule that may request collectives */
    bool uses_blocks;     /* an event rule that exchanges the gradient of each block */
    bool changes_grads;   /* the gradient of each local step, before the update */
    bool ends_equal;      /* workers have equal weights when a synchronous job ends */
    /* Of a rule that combines. */
    int n_vectors, n_numbers;
    bool has_weights, says_contribution, sums, combines_params, applies, adopts;
    enum codec_compression compression;
    unsigned limits; /* enum codec_limits, and those of codec_load.h */
    size_t state_size;
    char options[CODEC_OPTIONS_TEXT]; /* every option with its value, in the form of the settings */
    int every;                        /* steps between exchanges; 0: not given */
    char values[2048];                /* the options as a JSON object, ... */
    char list[16384];                 /* ... and in the form of codec_options_list() */
};

/* `options`: as given by the user, "alpha=0.5". ERR_CODEC: the object does not load (with the reason), or
 * loading it crashed, ended or blocked the process (with the kind). ERR_CONFIG: an unknown option; the
 * message lists the known ones. */
int codec_probe(struct codec_facts *out, const char *path, const char *options, struct err *e);
/* The same for an executor. */
int executor_probe(struct codec_facts *out, const char *path, struct err *e);

/* What a built-in codec's open() is called with, so that a job which the rule refuses is refused before
 * anything is shipped. A user's codec is not opened: its code runs in the sandbox of a node only.
 *
 * What open() sees differs from a node in three things: the initial weights are all 0.01; one server holds
 * the whole model, also where several servers share it; and the host has only the functions that prepare a
 * state: zeros(), array(), uniform(), common(), fail(), log() and holds(). If OPEN_CHECK_BYTES_MAX do not
 * suffice, nothing is refused here. */
struct open_check {
    const struct settings *set;
    const struct model_spec *model;
    const struct blocks *blocks;
    bool is_of_servers; /* open() of a server, else of a worker */
};
enum { OPEN_CHECK_BYTES_MAX = 256 << 20 };

/* ERR_CODEC: open() refuses the job, by fail(). Returns 0 if the process does not answer: the nodes then
 * report what is wrong with the codec. */
int codec_probe_open(const char *path, const char *options, const struct open_check *t, struct err *e);

#endif
