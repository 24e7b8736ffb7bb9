/* curve -- curves of a job's records (shared/records/series.h) for GET .../metrics. A process of its own
 * makes them: 10^6 rows take most of a second, in which the agent's one thread would serve no other client,
 * and the rows come from a process that runs a codec. The process is this program again, as `agent curves`.
 * It gets the open file and the request's query, and writes the document to memory that the agent then
 * serves.
 *
 * At most CURVES_AT_ONCE run, the others wait; each must be done CURVE_S seconds after its request. */
#ifndef PSGD_CURVE_H
#define PSGD_CURVE_H

#include "agent/api/api.h"
#include "shared/base/child.h"
#include "shared/base/loop.h"
#include "shared/records/series.h"

enum { CURVES_AT_ONCE = 2, CURVES_WAITING = 30, CURVES_KNOWN = 64, CURVE_S = 60 };

struct curve;

struct curves {
    struct loop *loop;
    char *exe;           /* of this program */
    const char *address; /* of the agent, for messages */
    uint64_t *n_changes; /* incremented when a curve is ready, so that its request is asked again */
    struct curve *first; /* those that run or wait, the oldest first */
    struct {             /* sizes of the latest documents, because 304 must state Content-Length */
        char etag[24];
        uint64_t bytes;
    } known[CURVES_KNOWN];
    size_t n_known;
};

/* Responds with the curves of the records in `fd` (taken; -1: the file has no rows yet): the response waits,
 * or is 304, or a problem, such as OVERLOADED if too many wait. `more` identifies file and query, for the
 * ETag. */
void curve_ask(struct curves *all, const struct series_query *q, int fd, const char *more,
               const struct request *rq, struct api_response *rs);

size_t curves_count(const struct curves *all);      /* that run or wait */
bool curve_is_own(const void *curves, pid_t child); /* one of the processes of struct curves */

/* main() of the process. */
int curve_main(int argc, char **argv);

#endif
