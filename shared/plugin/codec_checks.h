/* codec_checks -- the checks of a codec, and the shared page in which the checking program
 * (conform/codec_check.c) reports its progress. That program runs the codec's code: if it crashes or hangs,
 * job_submit, which maps the same page, reads in which callback. */
#ifndef PSGD_CODEC_CHECKS_H
#define PSGD_CODEC_CHECKS_H

#include <stdatomic.h>
#include <stdint.h>

enum codec_check_kind {
    CODEC_CHECK_ENDS,
    CODEC_CHECK_TIMING,
    CODEC_CHECK_EQUAL,
    CODEC_CHECK_RESULT,
    CODEC_CHECK_COST,
    CODEC_CHECK_CONVERGES,
    CODEC_CHECK_MALFORMED,
    CODEC_CHECK_MEMORY,
    CODEC_CHECK_RESTORE,
    CODEC_CHECK_LOSS,
    N_CODEC_CHECKS
};

enum { CODEC_CHECK_FD = 3 /* of the page, in the checking program */ };

struct codec_check {
    const char *name, *requirement; /* what holds for a codec that passes */
};

extern const struct codec_check codec_checks[N_CODEC_CHECKS];

struct codec_check_page {
    char callback[16]; /* in which the codec runs, or "load", "unload"; "": none */
    int node, from;    /* from: the sender of the message being read, if any */
    uint64_t step;
    /* Incremented when a call of the codec begins and when it ends: odd during a call. While the program
     * runs, job_submit only reads whether this increases, so relaxed order suffices. */
    _Atomic uint64_t n_turns;
    uint64_t seed;  /* --seed that repeats the running part of the check; 0: it has no parts */
    char what[128]; /* description of this part */
    /* If a read beyond the end of a message or vector ended the program: beyond which of the two, and by how
     * many bytes. */
    enum codec_check_beyond {
        CHECK_BEYOND_NOTHING,
        CHECK_BEYOND_MESSAGE,
        CHECK_BEYOND_VECTOR,
        CHECK_NULL_VECTOR /* no bytes beyond: the address is in the first page */
    } beyond_what;
    uint64_t beyond;
    enum codec_check_outcome { CHECK_RUNS, CHECK_HOLDS, CHECK_FAILED, CHECK_NOT_FOR_IT, CHECK_ERROR } outcome;
    char text[1536]; /* why it failed, or does not apply to this codec, and a hint */
};

#endif
