/* trainer_about -- what a training program finds on this machine: the versions of Python, numpy and torch,
 * and the GPUs. The interpreter of training programs (trainer_policy.h) tells it, in a process that is
 * started when a client asks: it takes 0.1 s, a second with GPUs, which an agent without training programs
 * does not spend. No library is loaded for its version. */
#ifndef PSGD_TRAINER_ABOUT_H
#define PSGD_TRAINER_ABOUT_H

#include <jansson.h>

#include "agent/base/inquiry.h"

/* The caller sets the inquiry's loop and n_changes, and python. */
struct trainer_about {
    struct inquiry inquiry;
    char *python;      /* the interpreter; "": there is none */
    json_t *facts;     /* NULL: not asked, or it failed */
    struct err broken; /* why it failed; code 0: it has not */
};

/* Starts the process, unless it runs or has just answered, and does not wait for it. It is killed after some
 * seconds. A failure is in `broken`. */
void trainer_about_ask(struct trainer_about *t);
void trainer_about_clear(struct trainer_about *t); /* ends the process, if it runs; {0} is allowed */

/* Adds to `o`: "python", "numpy" and "torch", versions, null if there is none; "gpus", their names; and
 * "trainer_error", null or why the interpreter has not answered. All are null if it was not asked. */
void trainer_about_add(json_t *o, const struct trainer_about *t);

#endif
