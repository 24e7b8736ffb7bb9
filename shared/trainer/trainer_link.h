/* trainer_link -- psgd's end of the records that it exchanges with a training program (trainer_wire.h), over
 * one socket: for a node's runner, for the simulator, and for job_submit before it ships the program. It
 * knows neither vectors nor the job. In this order:
 *
 *   trainer_link_take_tensors   the program's tensors; compare them, then trainer_link_refuse or
 *   trainer_link_accept         passes the memory, and waits for VALUES: the values are where they belong
 *   trainer_link_await_ready    the program stands before its first step
 *   trainer_link_turn           gives a turn and takes the program's answer: any number of times
 *   trainer_link_stop           the job has ended
 *
 * METRIC and SHARD, which may come before an answer, go to the functions of the config, and FINISHED, which
 * comes once, is noted. The program is not trusted: each record is checked, and nothing is read of a
 * descriptor that is no file.
 *
 * Every function that takes `e` fails with
 *
 *   ERR_TRAINER     the program has ended, has sent FAILED, or a record that does not belong there. The text
 *                   begins with the program's name
 *   ERR_TIMEOUT     `deadline` (clock_now; INFINITY: none) is over; the program still has the turn
 *   ERR_CANCELLED   *interrupted is set
 *   ERR_NOMEM, or what a function of the config returned
 *
 * After an error only trainer_link_refuse, _stop and _close may be called. */
#ifndef PSGD_TRAINER_LINK_H
#define PSGD_TRAINER_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/job/model_spec.h"
#include "shared/trainer/trainer_shard.h"
#include "shared/trainer/trainer_wire.h"

/* Seconds from a program's start until READY: it loads its libraries and its data. */
enum { TRAINER_START_S = 600 };

/* Functions return 0 or a code; NULL: the record is refused. */
struct trainer_link_config {
    int fd;                         /* taken; non-blocking calls are made on it, whatever its flags */
    const char *program;            /* for messages: "train.py". Borrowed */
    const atomic_bool *interrupted; /* NULL: nothing interrupts */
    int (*waiting)(void *owner, struct err *e); /* about once a second of a wait; NULL: nothing is done */
    int (*other)(void *owner,
                 struct err *e); /* in a wait, when trainer_link_watch's descriptor is readable */
    int (*metric)(void *owner, const char *name, double value, struct err *e);
    /* *index (*n): the caller's rows, freed by the link. ERR_TRAINER: the program gets the reason, and the
     * link goes on. */
    int (*shard)(void *owner, const struct shard_request *request, uint32_t **index, size_t *n,
                 struct err *e);
    int (*memory)(void *owner, size_t bytes); /* a new file in memory for the index; -1 and errno */
    void *owner;                              /* their first argument */
};

struct trainer_link {
    struct trainer_link_config cfg;
    uint64_t n_sent, n_received;
    int other_fd;     /* trainer_link_watch; -1: none */
    uint32_t opened;  /* flags of OPEN */
    bool has_ended;   /* the program has closed its end: what it ended with may be known elsewhere */
    bool is_finished; /* it has sent FINISHED */
    bool has_failed;  /* it has sent FAILED */
    char reason[TRAINER_REASON]; /* why, as far as it has come */
    int n_parts;                 /* of it */
};

void trainer_link_open(struct trainer_link *l, const struct trainer_link_config *cfg);
void trainer_link_close(struct trainer_link *l); /* the program sees an end of file */

/* From now on waits for the program also look at this descriptor, which is not taken; -1: at none. */
void trainer_link_watch(struct trainer_link *l, int fd);

/* What a program announces. */
struct trainer_tensors {
    struct model_tensor *all;    /* (n), owned: at least one is trained, their offsets are not set */
    struct model_frozen *frozen; /* (n_frozen), owned */
    size_t n, n_frozen;
};

/* All names are unique. *out is empty after an error. */
int trainer_link_take_tensors(struct trainer_link *l, struct trainer_tensors *out, double deadline,
                              struct err *e);
void trainer_tensors_clear(struct trainer_tensors *t);
/* ERR_TRAINER: the tensors of the program on node `node` are not those of the job, and how they differ; or
 * its frozen ones have other values. */
int trainer_link_compare(const struct trainer_link *l, int node, const struct trainer_tensors *own,
                         const struct model_spec *job, struct err *e);
void trainer_link_refuse(struct trainer_link *l, const char *why);

/* Offsets, sizes and counts of the memory of vectors (n_params) of which n_trained are trained. */
struct trainer_accepted trainer_link_lay_out(size_t n_params, size_t n_trained);
/* flags: TRAINER_TAKES_GRADIENTS, _DESCRIBES, _IS_RESUMED. memory_fd is not taken. */
int trainer_link_accept(struct trainer_link *l, const struct trainer_accepted *a, uint32_t flags,
                        int memory_fd, double deadline, struct err *e);
/* *n_batches: of the program's data in an epoch; 0: not known. */
int trainer_link_await_ready(struct trainer_link *l, uint64_t *n_batches, double deadline, struct err *e);

/* After a description: has the program send OPEN and its tensors once more, for another process, which takes
 * over the socket. */
int trainer_link_again(struct trainer_link *l, struct err *e);

/* Sends `turn`, whose kind, step and flags are set, with the descriptor `fd` (-1: none), which is not taken.
 * *answer: of a kind that `turn` allows. */
int trainer_link_turn(struct trainer_link *l, const struct trainer_record *turn, int fd,
                      struct trainer_record *answer, double deadline, struct err *e);
/* The same in two calls, between which other work can be done. `turn`: its kind. */
int trainer_link_give(struct trainer_link *l, const struct trainer_record *turn, int fd, struct err *e);
int trainer_link_take(struct trainer_link *l, enum trainer_kind turn, struct trainer_record *answer,
                      double deadline, struct err *e);

/* "GRADIENT"; `kind`: of a program's record. */
const char *trainer_link_kind_name(uint32_t kind);

/* flags: TRAINER_HAS_FAILED, _DESCRIBES. Nothing is sent to a program that has ended, or does not read. */
void trainer_link_stop(struct trainer_link *l, uint32_t flags, const char *why);

#endif
