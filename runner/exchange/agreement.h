/* agreement -- which contributions of lost workers count, in synchronous rounds between workers that continue
 * without lost ones: all remaining workers must merge the same contributions, although some may have received
 * a lost worker's contribution that others have not.
 *
 *   A lost worker's contribution counts in a round if a remaining worker has closed that round with it.
 *
 * A worker that knows of a loss closes no round until each remaining worker has sent a statement about the
 * same lost workers: the round of its sender, and the workers whose contributions are in the previous round.
 * A worker that is one round behind then gets the lost workers' contributions to that round from a worker
 * that is not behind. Proof: docs/protocol.md. This file keeps the statements and computes which
 * contributions count; round_loss.c sends and receives them. */
#ifndef PSGD_AGREEMENT_H
#define PSGD_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agreement { /* {0}: no agreement is needed */
    int n, self;   /* number of workers; this one */
    bool *is_lost; /* (n) lost here, or in another worker's statement */
    int n_lost;
    bool is_settled;  /* the statements of all remaining workers name the same lost workers */
    bool *has_stated; /* (n) its statement names exactly the workers that are lost here */
    uint64_t *rounds; /* (n) the round in its statement */
    uint64_t top;     /* the latest of these */
    bool *counted;    /* (n) workers whose contributions are in round `top` - 1 */
};

/* One worker's statement; the lists are n bits each, worker w is bit w % 8 of byte w / 8. */
struct agreement_statement {
    uint64_t round;
    const unsigned char *lost, *counted;
};

/* False: no memory. */
bool agreement_open(struct agreement *a, int n, int self);
void agreement_clear(struct agreement *a);

void agreement_lose(struct agreement *a, int worker); /* no effect if it is lost already */
/* After further losses: discards the statements received so far, which do not name the newly lost workers.
 * This worker is in `round`; the caller has written to a->counted whose contributions are in its previous
 * round. */
void agreement_restate(struct agreement *a, uint64_t round);

size_t agreement_bytes(const struct agreement *a); /* of a statement */
void agreement_write(const struct agreement *a, unsigned char *out);
/* Parses a statement of `from`, which is not lost here; the lists stay in `bytes`. False: malformed, or
 * impossible while this worker is in own_round. */
bool agreement_read(struct agreement_statement *out, const struct agreement *a, int from, uint64_t own_round,
                    uint64_t round, const unsigned char *bytes, size_t len);
bool agreement_names_lost(const struct agreement_statement *s, int worker);
/* Keeps a statement; every worker that it names as lost is lost here, too. A statement that names fewer
 * workers is outdated and ignored, because its sender will send another; so is a second one about the same
 * workers. */
void agreement_take(struct agreement *a, int from, const struct agreement_statement *s);

/* A worker whose statement is missing; -1: none. has_left (n): it has sent BYE or is lost, and is not
 * awaited. */
int agreement_awaits(const struct agreement *a, const bool *has_left);
/* True once: when the agreement becomes settled. */
bool agreement_settles(struct agreement *a, const bool *has_left);
/* Once it is settled: does that worker's contribution count in `round`, which this worker has not closed? */
bool agreement_counts(const struct agreement *a, int worker, uint64_t round);
/* The worker that relays missing contributions to those that are behind; -1: none remains. */
int agreement_relayer(const struct agreement *a, const bool *has_left);
bool agreement_is_behind(const struct agreement *a, int worker);

#endif
