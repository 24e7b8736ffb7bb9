/* agreement -- which words of lost workers count, where workers say their words to each other in synchronous
 * rounds and those that are left go on: they must merge the same words, although some may have heard a word
 * of a lost one that others have not.
 *
 *   A lost worker's word counts in a round if one who is left has closed that round with it, else not.
 *
 * A worker closes no round from when it knows of a loss until it has, from everybody who is left, a statement
 * about the same lost workers: which round its sender is in, and whose words it has closed the one before
 * with. Who is a round behind then gets the lost workers' words of that round from one who is not. The whole
 * argument: docs/protocol.md. Here is what was stated and what follows; round_loss.c sends and receives. */
#ifndef PSGD_AGREEMENT_H
#define PSGD_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agreement { /* {0}: nobody has to agree on anything */
    int n, self;   /* workers */
    bool *is_lost; /* (n) to this one: it has noticed it, or was told */
    int n_lost;
    bool is_settled;  /* everybody who is left has stated the same lost workers */
    bool *has_stated; /* (n) just those who are lost here */
    uint64_t *rounds; /* (n) that they were in */
    uint64_t top;     /* the latest of these */
    bool *counted;    /* (n) workers whose words were in the round before `top` */
};

/* What one worker says; the lists are n bits each, worker w's the bit w % 8 of byte w / 8. */
struct agreement_statement {
    uint64_t round;
    const unsigned char *lost, *counted;
};

/* False: no memory. */
bool agreement_open(struct agreement *a, int n, int self);
void agreement_clear(struct agreement *a);

void agreement_lose(struct agreement *a, int worker); /* has an effect once */
/* After one or more were lost: what others have stated is about fewer. This worker is in `round` and has
 * closed the one before with the words of those whom the caller has written to a->counted. */
void agreement_restate(struct agreement *a, uint64_t round);

size_t agreement_bytes(const struct agreement *a); /* of a statement */
void agreement_write(const struct agreement *a, unsigned char *out);
/* What `from` has stated, who is not lost here; the lists stay in `bytes`. False: while this worker is in its
 * round, nobody could state that. */
bool agreement_read(struct agreement_statement *out, const struct agreement *a, int from, uint64_t own_round,
                    uint64_t round, const unsigned char *bytes, size_t len);
bool agreement_says_lost(const struct agreement_statement *s, int worker);
/* Everybody whom the statement names is lost here, too, by now. One that names fewer is about what was: its
 * sender will state more. A second one about the same is none. */
void agreement_take(struct agreement *a, int from, const struct agreement_statement *s);

/* Whose statement is waited for; -1: nobody's. has_left (n): has said good-bye or is lost, and is not waited
 * for. */
int agreement_awaits(const struct agreement *a, const bool *has_left);
/* Did it become settled by now, and was not? */
bool agreement_settles(struct agreement *a, const bool *has_left);
/* Once it is settled: does that worker's word count in this round, which this worker has not closed? */
bool agreement_counts(const struct agreement *a, int worker, uint64_t round);
/* And who hands on what those who are behind lack; -1: nobody who is there need. */
int agreement_relayer(const struct agreement *a, const bool *has_left);
bool agreement_is_behind(const struct agreement *a, int worker);

#endif
