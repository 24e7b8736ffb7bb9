/* sources -- counts of failed authentications (wrong tokens, wrong join codes) for each address, and on
 * loopback for each user. After FAILURES_FREE of them a source is slowed: for 15 s its wrong attempts are
 * refused unseen, and each further failure doubles that, up to ten minutes. Ten minutes without a failure
 * clear the count. A right token is never refused. */
#ifndef PSGD_AGENT_HTTP_SOURCES_H
#define PSGD_AGENT_HTTP_SOURCES_H

#include "shared/http/source.h"

enum { FAILURES_FREE = 10, SOURCES_MAX = 4096 };

/* A table of the SOURCES_MAX that failed last, or nearly: a source shares eight places with others of the
 * same hash. */
struct sources;
struct sources *sources_new(void); /* NULL: no memory */
void sources_free(struct sources *t);

/* `now` is clock_now(). Returns for how many seconds more the source is slowed, rounded up; 0: it is not. */
int sources_slowed_s(const struct sources *t, const struct source *s, double now);
void sources_failed(struct sources *t, const struct source *s, double now);

/* Returns whether a line about the source may be logged: one a second. */
bool sources_may_log(struct sources *t, const struct source *s, double now);

#endif
