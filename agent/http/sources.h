/* sources -- counts of failed authentications (wrong tokens, wrong join codes) of each address, and on
 * loopback of each user. After FAILURES_FREE failures a source is slowed: for 15 s its wrong attempts are
 * refused without a check, and each further failure doubles that time, up to ten minutes. Ten minutes without
 * a failure clear the count. A right token is never refused. */
#ifndef PSGD_AGENT_HTTP_SOURCES_H
#define PSGD_AGENT_HTTP_SOURCES_H

#include "shared/http/source.h"

enum { FAILURES_FREE = 10, SOURCES_MAX = 4096 };

/* A table of about the last SOURCES_MAX sources that failed: sources with the same hash share eight
 * places. */
struct sources;
struct sources *sources_new(void); /* NULL: no memory */
void sources_free(struct sources *t);

/* `now` is clock_now(). Returns for how many seconds more the source is slowed, rounded up; 0: it is not. */
int sources_slowed_s(const struct sources *t, const struct source *s, double now);
void sources_failed(struct sources *t, const struct source *s, double now);

/* Returns whether a line about the source may be logged: once a second. */
bool sources_may_log(struct sources *t, const struct source *s, double now);

#endif
