/* sources -- counts of failed authentications (wrong tokens, wrong join codes) for each address, and on
 * loopback for each user. After FAILURES_FREE of them a source is slowed: for 15 s its wrong attempts are
 * refused unseen, and each further failure doubles that, up to ten minutes. Ten minutes without a failure
 * clear the count. A right token is never refused. */
#ifndef PSGD_AGENT_HTTP_SOURCES_H
#define PSGD_AGENT_HTTP_SOURCES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { FAILURES_FREE = 10, SOURCES_MAX = 4096 };

/* An IPv6 address by its first 64 bits, of which one host commonly has all the rest. */
struct source {
    uint8_t address[16]; /* IPv4: as ::ffff:a.b.c.d */
    int64_t uid;         /* of a loopback address; UID_UNKNOWN of any other */
};
#define UID_UNKNOWN (-1)

void source_of(struct source *out, const struct sockaddr *peer);
bool source_is(const struct source *a, const struct source *b);
bool source_has_address(const struct source *a, const struct source *b);

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
