/* watch -- stands between a host and a codec that is checked: the host gets a plug-in whose callbacks call
 * the codec's. So it is known at any time where the codec is at work, a message that it reads ends where
 * memory ends, and what it allocates is counted.
 *
 * One codec in one process, as the callbacks of a plug-in have nobody to belong to. */
#ifndef PSGD_SIM_WATCH_H
#define PSGD_SIM_WATCH_H

#include "codecs/codec.h"
#include "shared/codec_check.h"
#include "shared/err.h"

/* How a codec hears of others: merge, adopt, on_message or on_collective. */
typedef int watch_read(const struct codec_plugin *p, struct codec *c, int from, struct wire_in *in);

struct watch_call {
    watch_read *read;
    const char *name; /* of the callback */
    struct codec *c;
    int from;
    const struct wire_in *in; /* NULL: of no message, but a collective that is done */
};

/* Called before the codec is. */
typedef void watch_receive(void *owner, const struct watch_call *call);

/* `page` is borrowed. ERR_NOMEM. */
int watch_open(const struct codec_plugin *plugin, struct codec_check_page *page, struct err *e);
const struct codec_plugin *watch_plugin(void);            /* for the host */
void watch_receives(watch_receive *receive, void *owner); /* NULL: nobody */

/* Places that end where memory does: one for a message, but for what an alignment of 4 bytes takes, and one
 * for each of the first vectors that are read from it. */
enum { WATCH_MESSAGE, WATCH_VECTOR, WATCH_VECTORS = 3, WATCH_PLACES = WATCH_VECTOR + WATCH_VECTORS };
/* For so many bytes; what lay in that place before is gone. */
unsigned char *watch_place(int place, size_t len);
/* Is `address` behind what lies in one of them? Then the page says so. For a handler of SIGSEGV. */
void watch_fault(const void *address);

/* The codec is in `name`, on c's node; it reads a message of `from`. watch_leave returns rc. */
void watch_enter(const char *name, const struct codec *c, int from);
int watch_leave(int rc);

/* An allocation is being made for the code at `caller`. Counted are those of the codec's own code, as the
 * host may take memory in its calls, while it is at work on a step and round behind its second. */
void watch_allocation(const void *caller);
uint64_t watch_allocations(void);
bool watch_sees_allocations(void); /* has anybody told of any? */

#endif
