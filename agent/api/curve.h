/* curve -- curves of a job's records (shared/records/series.h) for GET .../metrics, made by a process of
 * their own: 10^6 rows take most of a second, in which the agent's one thread would serve nobody, and the
 * rows come from a process that runs a codec. The process is this program again, as `agent curves`; it has
 * the open file and the question, and leaves the document in memory that the agent then serves.
 *
 * At most CURVES_AT_ONCE run, the others wait; each has CURVE_S seconds from the question. */
#ifndef PSGD_CURVE_H
#define PSGD_CURVE_H

#include "agent/api/routes.h"
#include "shared/base/child.h"
#include "shared/base/loop.h"
#include "shared/records/series.h"

enum { CURVES_AT_ONCE = 2, CURVES_WAITING = 30, CURVES_KNOWN = 64, CURVE_S = 60 };

struct curve;

struct curves {
    struct loop *loop;
    char *exe;           /* of this program */
    const char *address; /* of the agent, for messages */
    uint64_t *n_changes; /* incremented when a curve is ready, so that its request is looked at */
    struct curve *first; /* those that run or wait, the oldest first */
    struct {             /* of the last ones: an answer 304 states the length of the document */
        char etag[24];
        uint64_t bytes;
    } known[CURVES_KNOWN];
    size_t n_known;
};

/* Answers with the curves of `fd` (taken; -1: the file has no rows yet). The response waits (RESPONSE_CURVE),
 * or is 304, or a problem: OVERLOADED, too many wait. `more` identifies file and question, for the ETag. */
void curve_ask(struct curves *all, const struct series_query *q, int fd, const char *more,
               const struct request *rq, struct response *rs);
bool curve_is_ready(const struct curve *c);
/* Then: the document, or the problem. Before, when the agent stops: the problem. */
void curve_respond(struct response *rs);
/* Ends its process; NULL is allowed. */
void curve_free(struct curve *c);

size_t curves_count(const struct curves *all);      /* that run or wait */
bool curve_is_own(const void *curves, pid_t child); /* one of the processes of struct curves */

/* main() of `agent curves FILE NAMES X POINTS FROM TO`, with the file as descriptor 3. */
int curve_main(int argc, char **argv);

#endif
