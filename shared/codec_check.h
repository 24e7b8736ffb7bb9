/* codec_check -- what is checked of a codec, and the page of memory in which the program that checks
 * (sim/codec_check.c) tells how far it is. job_submit maps the same page: whatever becomes of that program,
 * which runs the codec's code, the page says where the codec was at work. */
#ifndef PSGD_CODEC_CHECK_H
#define PSGD_CODEC_CHECK_H

#include <stdatomic.h>
#include <stdint.h>

enum codec_check_kind {
    CODEC_CHECK_ENDS,
    CODEC_CHECK_TIMING,
    CODEC_CHECK_RESULT,
    CODEC_CHECK_COST,
    CODEC_CHECK_CONVERGES,
    CODEC_CHECK_MALFORMED,
    CODEC_CHECK_MEMORY,
    CODEC_CHECK_RESTORE,
    CODEC_CHECK_LOSS,
    N_CODEC_CHECKS
};

enum { CODEC_CHECK_FD = 3 /* of the page, in the program that checks */ };

struct codec_check {
    const char *name, *says; /* `says` is true of a codec that passes */
};

extern const struct codec_check codec_checks[N_CODEC_CHECKS];

struct codec_check_page {
    char callback[16]; /* that the codec is in; "": in none */
    int node, from;    /* from: the sender of the message, where it is one's reading */
    uint64_t step;
    /* One more when a call begins, and when it ends: odd within one. job_submit looks meanwhile whether it
     * grows, and at nothing else before the program has ended: relaxed. */
    _Atomic uint64_t n_turns;
    uint64_t seed;  /* what --seed is to repeat the part of the check that runs; 0: it has no parts */
    char what[128]; /* this part, for people */
    /* A read behind the end of this has ended the program, so many bytes behind it. */
    enum codec_check_beyond { CHECK_BEYOND_NOTHING, CHECK_BEYOND_MESSAGE, CHECK_BEYOND_VECTOR } beyond_what;
    uint64_t beyond;
    enum codec_check_outcome { CHECK_RUNS, CHECK_HOLDS, CHECK_FAILED, CHECK_NOT_FOR_IT, CHECK_ERROR } outcome;
    char text[1024]; /* why it failed, or is not for this codec */
};

#endif
