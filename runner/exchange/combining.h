/* combining -- runs a rule that combines vectors of all workers (struct codec_combine): calls its callbacks,
 * checks their results, and keeps c->global. A path (struct combine_path) gets this worker's contribution
 * here, carries the contributions of all workers, combines them, and passes the combination to the rule. */
#ifndef PSGD_COMBINING_H
#define PSGD_COMBINING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/codec_events.h"
#include "shared/base/err.h"
#include "shared/job/aggregate.h"

enum { COMBINING_ROOMS = 4 * CODEC_VECTORS_MAX + 4 }; /* the most vectors that a rule and its path allocate */

struct channel;

/* How contributions reach each other: a path writes and reads the messages of rounds (round.h), or starts
 * collectives (collecting.h). A new path is a line in shared/job/combine_path_kinds.h and a file in
 * paths/. */
struct combine_path {
    bool has_levels; /* its all-reduces run inside each machine, and between machines */
    /* Exactly one of the two, for the rule of a job; has_trainer: exchange_config; is_late: combinations are
     * one exchange late. */
    const struct round_rule *(*round)(const struct codec_combine *rule, bool has_trainer);
    struct channel_handlers (*collectives)(const struct codec_combine *rule, bool is_late);
    int (*open)(struct channel *ch); /* allocates what the path needs; CODEC_GO or a code */
    /* The number of vectors (n_params) that it allocates later, on first use. NULL: none. */
    int (*n_later)(const struct channel *ch);
    /* Sets linked[k] for each worker k with which its collectives, where workers are on these machines,
     * exchange chunks. CODEC_GO or a code. NULL: it may exchange messages with every worker. */
    int (*link)(struct channel *ch, const int *machines, bool *linked);
    /* What this node sends in one exchange of a synchronous job, as codec_plugin.sends. NULL: unknown. */
    struct codec_cost (*cost)(const struct channel *ch);
};

extern const struct combine_path path_gather, path_servers, path_allreduce, path_tree;

/* The sums over a worker's local steps since the last exchange, as in struct codec. */
struct combining_local {
    float samples, lr_sum;
    uint64_t n_local;
};

struct combining {
    const struct codec_combine *rule; /* NULL: a rule of another kind */
    const struct combine_path *path;
    int n_vectors;
    bool is_weighted; /* contributions carry a weight; otherwise all have the same */
    /* A mean of gradients by their samples: merged as a sum, which is divided at the end. So equal weights
     * that are a power of two give the bits of a mean without weights. */
    bool divides;

    /* This worker's contribution. */
    float *own[CODEC_VECTORS_MAX];           /* room for contribute(), or for scaled copies; NULL: none */
    const float *vectors[CODEC_VECTORS_MAX]; /* the contribution: own, grads or params */
    float numbers[CODEC_NUMBERS_MAX];
    float weight;

    /* Gather and servers merge contributions one at a time; the combination so far: */
    float *merged[CODEC_VECTORS_MAX];
    float merged_numbers[CODEC_NUMBERS_MAX];
    float merged_weight;
    bool is_empty;  /* on a server: the last round had no contribution */
    int n_finished; /* workers that have said in this round that they are finished */
    bool *finished; /* (n_workers) in this or an earlier round, where workers are drawn; otherwise NULL */
    /* For an aggregate other than the mean (shared/job/aggregate.h): all contributions, not merged. */
    struct aggregate aggregate;
    float *all;         /* (n_most, n_vectors, n_params) */
    float *all_numbers; /* (n_most, n_numbers) */
    int *senders;       /* (n_most) */
    double *work; /* (aggregate_work(n_most)): measures (n, n), and behind n_most^2 values room to compute */
    const float **inputs; /* (n_most) */
    int n_most, n_all;

    /* Of a path of collectives (allreduce). */
    bool is_under_way;
    int turn; /* 0 or 1: of the last exchange, which alternates between two results */
    int at;   /* the vector that is being combined; -1: the numbers */
    /* Weight times the numbers, the weight, and with a training program 1 if the worker is finished. */
    float tail[CODEC_NUMBERS_MAX + 2];
    float tails[2][CODEC_NUMBERS_MAX + 2]; /* by turn: the sums of all workers' tails */
    float *results[2][CODEC_VECTORS_MAX];  /* by turn: combinations */
    /* Combinations that are one exchange late. */
    struct {
        bool is_due;                  /* the worker waits for the exchange under way */
        bool is_last;                 /* it is the job's last exchange */
        bool has_result;              /* an exchange is complete, and not applied yet */
        bool is_empty;                /* no worker has contributed to it */
        struct combining_local local; /* of that exchange, or of the exchange under way */
        float *at;                    /* params when contributed, of a rule with local steps */
        float *now;                   /* params when that exchange is applied */
    } late;

    bool has_combined;     /* some combination had a contribution */
    float statistics_part; /* the factor that makes a combination's running statistics their mean */
    float *before;         /* c->global before apply(), for adopt(); NULL: the rule has no adopt() */
    double grad_norm;      /* asgd, on a server: the norm sent with the contribution that is merged */
    uint32_t version;      /* asgd, on a worker: the number of the server's rounds in its parameters */
    float *rooms[COMBINING_ROOMS]; /* (n_params) each: every allocated vector of this struct */
    int n_rooms;
};

size_t combining_limit(const struct codec_combine *r, size_t n_params); /* bytes of the longest message */
/* Before the codec's open(). ERR_NOMEM. */
int combining_open(struct channel *ch, struct err *e);
void combining_clear(struct combining *b);
/* Sets *at to a vector (n_params) that lives as long as the channel; for a path's open(). CODEC_GO or
 * ERR_NOMEM. */
int combining_room(struct channel *ch, float **at);

/* Functions for a path. Each int function returns CODEC_GO or the code of the exchange's error. */

/* Has the rule compute this worker's contribution: vectors, numbers, weight. Without samples, of a training
 * program, the weight is 0, and the vectors are not defined. ERR_NUMERIC: it is not finite. */
int combining_contribute(struct channel *ch);
/* `sum` of all workers' weights. ERR_CODEC: it is not finite. */
int combining_check_weights(struct channel *ch, float sum);
/* Writes that contribution into a message; reads a contribution, false: it is malformed. A message that is
 * not weighted has weight 1. */
void combining_put(struct channel *ch, struct wire_out *out, bool is_weighted);
bool combining_may_be_empty(const struct channel *ch); /* may all weights be 0? */
struct combining_contribution {
    const float *vectors[CODEC_VECTORS_MAX], *numbers;
    float weight;     /* 0: without vectors and numbers */
    bool is_finished; /* with weight 0: the worker has no more data; of a server: all workers have none */
};
bool combining_get(struct combining_contribution *to, struct channel *ch, struct wire_in *in,
                   bool is_weighted);
/* Reads a contribution of a node and merges it, the n_merged-th of n_contributions: after the last one,
 * `merged` is the combination, for running statistics the mean. ERR_CODEC: it is malformed; ERR_NUMERIC: not
 * finite. */
int combining_take(struct channel *ch, int node, struct wire_in *in);
/* For a path that merges: allocates room for the n_most contributions of a round, if the aggregate needs all
 * of them at once. CODEC_GO or a code. */
int combining_open_aggregate(struct channel *ch, int n_most);
/* On one of several servers, before combining_finish, for an aggregate that compares contributions: writes
 * the measure of this range of vector number `vector` of all contributions (n_all, n_all) to `work`. */
void combining_measure(struct channel *ch, int vector);
/* After the last merge, and after all servers' measures have arrived, if the aggregate needs them (whole.h):
 * completes the combination, and on a worker applies it. Returns a code, CODEC_GO, or CODEC_WAIT: no
 * contribution has arrived, and nothing is applied. */
int combining_finish(struct channel *ch);
/* After the last merge, of n_contributions: ends a synchronous job if all workers are finished. */
void combining_check_finished(struct channel *ch);
/* Passes the combination to the rule: on a server in asgd, or on a worker, whose parameters it moves. */
int combining_apply(struct channel *ch, const float *const *vectors, const float *numbers);
int combining_adopt(struct channel *ch); /* on a worker: the server's apply has changed c->global */

int combining_on_gradient(struct channel *ch); /* before a local update */

/* The vector that the combination replaces if the rule has no apply(): grads, global or params. */
float *combining_target(const struct channel *ch);
size_t combining_bytes(const struct channel *ch, bool is_weighted); /* of a message, uncompressed */

#endif
