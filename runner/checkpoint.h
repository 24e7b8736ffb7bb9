/* checkpoint -- a node's complete state in one safetensors file: a job that resumes from it continues as if
 * it had never stopped.
 *
 *   model/NAME     the parameters, with their names in a model file
 *   opt/NAME       the optimizer's vectors, as "opt/adam.m"; workers only
 *   codec/...      exchange_state.h
 *   trainer/state  bytes that a training program has saved (U8), and that psgd does not read. The codec is in
 *                  the process that writes them, so a program must not execute what it finds there
 *
 * Metadata: format "psgd-checkpoint", version, job_id, node, settings and arch (the documents), epoch, step,
 * round, samples, optimizer_steps, codec_sha256 (of the codec's file), preprocessing (the record, if the job
 * has one). No other random state is saved: the order of samples depends on (seed, epoch), dropout on (seed,
 * step), and a codec's own generator is in codec/K/cursor.
 *
 * All nodes save at the same point of the job: after the same step, when no round is open. When a job fails,
 * a node that is ahead of another may already have replaced its file, so the previous file is kept beside it.
 * That suffices if at least one round closes between two checkpoints: job_submit refuses other jobs
 * (start_from_check_kept). */
#ifndef PSGD_CHECKPOINT_H
#define PSGD_CHECKPOINT_H

#include "nn/net.h"
#include "nn/optimizer.h"
#include "runner/exchange/exchange.h"
#include "shared/job/model_spec.h"
#include "shared/job/settings.h"
#include "shared/records/tensor_file.h"

struct checkpoint { /* the state to save or restore; all pointers are borrowed */
    const struct settings *set;
    const char *job, *arch, *codec_sha256;
    const char *preprocessing; /* NULL: none */
    int node;
    struct net *net;
    struct optimizer *optimizer; /* NULL: a server */
    struct exchange *exchange;
    const void *program; /* (n_program) bytes of the program; restored, they are in the file. NULL: none */
    size_t n_program;
    int epoch; /* completed */
    uint64_t step, samples;
};

/* Call before the first step. ERR_CODEC: as exchange_can_save. ERR_CONFIG: as tensor_file_fits. */
int checkpoint_can_write(const struct checkpoint *c, struct err *e);
/* Replaces `path`. ERR_CODEC, ERR_INTERNAL: as exchange_save. */
int checkpoint_write(const char *path, const struct checkpoint *c, struct err *e);

/* Sets epoch, step, samples and program, and the contents of net, optimizer and exchange. ERR_CONFIG: the
 * file is not a checkpoint of this node, model, codec and settings, or is inconsistent; the contents are then
 * undefined. */
int checkpoint_restore(struct checkpoint *c, const struct tensor_file *f, const struct model_spec *m,
                       struct err *e);

#endif
