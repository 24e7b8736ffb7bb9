/* trainer_wire -- what a training program of a user's and psgd send each other: records of one size over a
 * socket of packets (SOCK_SEQPACKET), whose number is in the environment of the program (TRAINER_ENV). The
 * vectors are in memory that both have mapped; a record passes the turn to use them: each side touches them
 * only between a record that it has received and the next one that it sends. The system calls order memory,
 * so there is no lock in it, and an end of file says that the other side has ended.
 *
 *   program                          psgd (a node's runner, the simulator, or job_submit before it ships)
 *   OPEN, one TENSOR for each   ->
 *                               <-   ACCEPTED with the memory, or REFUSED
 *   VALUES                      ->   params are in the program's tensors (or, with TRAINER_DESCRIBES, the
 *                                    program's tensors are in params)
 *   SHARD with rows             ->   any number of times from here on, in the program's turn
 *                               <-   SHARDED, or REFUSED
 *   READY                       ->   the program stands before its first step
 *
 * A program that a launcher has started, and that has started psgd (PSGD_OPTIONS, docs/trainer.md), is first
 * asked for its tensors and values (TRAINER_DESCRIBES), as before any job. It then gets
 *
 *                               <-   AGAIN: now the node's runner is at the other end
 *
 * and announces itself once more, both sides counting records from 0: OPEN, TENSOR; ACCEPTED, whose memory
 * has the same size and takes the place of the first; VALUES; READY.
 *
 * From then on psgd gives turns, and the program answers each:
 *
 *   GO         GRADIENT, to which psgd answers UPDATE, then UPDATED (without TRAINER_TAKES_GRADIENTS at once)
 *   EVALUATE   EVALUATED; params are the rule's model until then
 *   SAVE       SAVED, after writing its own state to the descriptor
 *   RESTORE    RESTORED, after reading it from the descriptor; before the first GO of a resumed job
 *   STORE      STORED: psgd will read params; since a GO without TRAINER_READS they may be older than the
 *              program's tensors
 *   STOP       none: the job has ended, and the program ends; it may come in place of any record of psgd's
 *
 * A program that opens with TRAINER_IS_FUNCTION has no loop of its own, but a function that computes a step
 * of any worker. In a simulation (ACCEPTED with TRAINER_SIMULATES) each GO names the worker whose step it is,
 * and is answered by UPDATED, with the new params, or, by a program that opened with TRAINER_GIVES_GRADIENTS,
 * by GRADIENT, to which there is no UPDATE. The n of SHARDED is then that of the most rows of a step, and
 * psgd writes those of each GO to the file.
 *
 * METRIC may precede each record of the program. So may FINISHED, once: it has no more data, and this and all
 * later steps, whose GO comes without TRAINER_TAKES_PART, have weight 0. It answers as before, by 0 samples:
 * so its parameters follow the gradients that the other workers combine. The job ends when no program of its
 * workers has more data.
 *
 * FAILED, at any time, names why the program gives up. A reason (FAILED, REFUSED, STOP) that is longer than a
 * record goes on in the next ones, of the same kind, at most TRAINER_PARTS in all. A version, sequence or
 * kind that is not expected ends either side with an error, as do a text without a zero, and a descriptor
 * that is missing or not mentioned here.
 *
 * No length, offset or text is taken from the shared memory: a codec in the runner may have written it. */
#ifndef PSGD_TRAINER_WIRE_H
#define PSGD_TRAINER_WIRE_H

#include <stdint.h>

#define TRAINER_ENV "PSGD_TRAINER_FD"

enum {
    TRAINER_VERSION = 1,
    TRAINER_TEXT = 128,
    TRAINER_PARTS = 4,
    TRAINER_REASON = TRAINER_PARTS * (TRAINER_TEXT - 1) + 1, /* bytes of a reason with its zero */
    TRAINER_DIMS = 8,
    TRAINER_TENSORS_MAX = 4096,
    TRAINER_PAGE = 4096,
    TRAINER_NO_NODE = -1
};

enum trainer_kind {
    /* Of the program. */
    TRAINER_OPEN = 1, /* n: of tensors; flags TRAINER_IS_FUNCTION, TRAINER_GIVES_GRADIENTS */
    /* text: its name, shape, n_dims; flag TRAINER_STATISTIC. With TRAINER_FROZEN it has no place in the
     * vectors, and n is a checksum of its values, less than 2^32, which all workers must have */
    TRAINER_TENSOR,
    TRAINER_VALUES,
    /* n: of rows; step: the epoch whose order is wanted, from 0; n_dims 1 and shape[0]: of samples in a
     * batch, n_dims 0: all rows of this worker. With TRAINER_HAS_LABELS a descriptor of n int32, in memory */
    TRAINER_SHARD,
    TRAINER_READY, /* n: of its batches in an epoch; 0: not known */
    /* n: of samples, 0: the gradient is not used, as without TRAINER_TAKES_PART; loss: their mean; accuracy,
     * NAN: none; lr: the program's own rate for the update to come, not yet multiplied by psgd's factor */
    TRAINER_GRADIENT,
    TRAINER_UPDATED,   /* as GRADIENT, whose members count if there was no GRADIENT in this step */
    TRAINER_EVALUATED, /* n: of samples, 0: it has not evaluated; loss; accuracy, NAN: none */
    TRAINER_METRIC,    /* text: its name; loss: its value; step: of steps done */
    TRAINER_SAVED,
    TRAINER_RESTORED,
    TRAINER_FINISHED,
    TRAINER_FAILED, /* text: why */
    TRAINER_STORED,

    /* Of psgd. */
    TRAINER_ACCEPTED = 64, /* `accepted`, with the descriptor of the memory */
    TRAINER_REFUSED,       /* text: why */
    TRAINER_SHARDED,       /* n: of indices, uint32, each less than the rows, with a file of them in memory */
    /* step: from 0, less than n_steps; lr: the rule's factor on the rate of the update to come, mostly 1;
     * flags TRAINER_TAKES_PART, TRAINER_HAS_CHANGED, TRAINER_READS. In a simulation: n, of the step's
     * indices, and `go` */
    TRAINER_GO,
    TRAINER_UPDATE,   /* lr: as in GO, in its place; flags TRAINER_COMBINED, TRAINER_HAS_CHANGED */
    TRAINER_EVALUATE, /* step: of steps done; flag TRAINER_HAS_CHANGED */
    TRAINER_SAVE,     /* with the descriptor of an empty file */
    TRAINER_RESTORE,  /* with that of a file, at its start */
    TRAINER_STOP,     /* text: why; flags TRAINER_HAS_FAILED, TRAINER_DESCRIBES */
    TRAINER_STORE,
    TRAINER_AGAIN
};

enum trainer_flag {
    TRAINER_STATISTIC = 1, /* running statistics: averaged, and not updated by gradients */
    TRAINER_HAS_LABELS = 2,
    TRAINER_TAKES_GRADIENTS = 4,    /* ACCEPTED: the rule combines or changes gradients */
    TRAINER_DESCRIBES = 8,          /* ACCEPTED, STOP: no job yet; only layout and values are wanted */
    TRAINER_TAKES_PART = 16,        /* GO: otherwise this worker sits out, and its gradient is not used */
    TRAINER_HAS_CHANGED = 32,       /* params are others than when the program had its last turn */
    TRAINER_COMBINED = 64,          /* the update is by `combined`; otherwise by the program's own `grads` */
    TRAINER_HAS_FAILED = 128,       /* STOP: the job has not succeeded */
    TRAINER_IS_RESUMED = 256,       /* ACCEPTED: RESTORE will come before the first GO */
    TRAINER_IS_FUNCTION = 512,      /* OPEN: the program can compute a step of any worker */
    TRAINER_GIVES_GRADIENTS = 1024, /* OPEN, with TRAINER_IS_FUNCTION: it makes no updates */
    TRAINER_SIMULATES = 2048,       /* ACCEPTED: the process computes for several workers in turn */
    /* GO: psgd reads params after this step. Otherwise a program whose tensors lie elsewhere may leave their
     * copy out, until a GO with this flag or a STORE. */
    TRAINER_READS = 4096,
    TRAINER_FROZEN = 8192,  /* TENSOR: it is not exchanged, only compared */
    TRAINER_GOES_ON = 16384 /* FAILED, REFUSED, STOP: the next record has more of the text */
};

/* The memory is a file of at least `bytes`, sealed against shrinking. params, grads and combined, floats
 * (n_params) each, lie in it in this order, at these offsets in bytes, multiples of TRAINER_PAGE. Trained
 * parameters come first, tensor after tensor as announced; the statistics, in the same order, behind them. */
struct trainer_accepted {
    int32_t node, n_nodes;
    uint64_t n_params, n_trained;
    uint64_t grads_at, combined_at, bytes; /* params are at 0 */
    uint64_t seed, n_steps;                /* of the job, at most; 0: not known */
    uint64_t every;                        /* local steps between two exchanges */
    uint64_t n_done;                       /* of a resumed job: steps done */
};

struct trainer_go {
    int32_t node; /* the worker; TRAINER_NO_NODE: only the time of the step is wanted, and nothing is kept */
};

struct trainer_record { /* members that a kind does not mention are zero */
    uint32_t kind, version;
    uint64_t sequence; /* of this sender's records, from 0 */
    uint64_t step, n;
    double loss, accuracy, lr;
    uint32_t flags;
    int32_t n_dims;
    union {
        struct {
            uint64_t shape[TRAINER_DIMS];
            char text[TRAINER_TEXT]; /* UTF-8; ends with a zero */
        } of;
        struct trainer_accepted accepted;
        struct trainer_go go;
    } u;
};

_Static_assert(sizeof(struct trainer_record) == 256, "Python's struct format in trainer.py has this size");

#endif
