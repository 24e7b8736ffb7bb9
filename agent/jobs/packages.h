/* packages -- checks a job's packages, for a codec and a training program also whether it may run here, and
 * links their files into the job's folder. */
#ifndef PSGD_PACKAGES_H
#define PSGD_PACKAGES_H

#include "agent/jobs/jobs.h"
#include "shared/job/package.h"

/* {"files":{"codec.so":"HEX"}} -> the digests in the order of the package's files; an optional file may be
 * missing. ERR_CONFIG. */
int packages_parse(struct event *note, const json_t *doc, enum package p, struct err *e);

/* Links the blobs into the job's folder, all or none; packages_sync() makes it durable. Missing and refused
 * files are detected before the first link. A codec's object that this machine cannot load, or that is not
 * trusted, is not linked: job_runner then compiles the source. ERR_NOT_FOUND: a blob is not stored;
 * ERR_CODEC, ERR_TRAINER: refused; ERR_CONFIG: the manifest describes other files. */
int packages_link(struct jobs *jobs, const struct task *t, const struct event *note, enum package p,
                  struct err *e);
/* Call it before the links are recorded. */
int packages_sync(const struct task *t, struct err *e);

/* Checks that this machine can isolate the codec at the level that it needs. ERR_REFUSED. */
int packages_isolate(const struct jobs *jobs, const struct job_spec *spec, const struct codec_offer *offer,
                     enum codec_use use, struct err *e);

/* Returns the least isolation level of the job's codec, for the runner. The job's packages must be
 * complete. */
enum isolation packages_isolation(const struct jobs *jobs, const struct task *t);

#endif
