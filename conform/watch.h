/* watch -- wraps a codec that is checked: the host gets a plug-in whose callbacks call the codec's. It
 * records the callback that runs, places messages before inaccessible memory, and counts the codec's
 * allocations.
 *
 * One codec per process, because the callbacks of a plug-in have no context argument. */
#ifndef PSGD_CONFORM_WATCH_H
#define PSGD_CONFORM_WATCH_H

#include "codecs/codec_events.h"
#include "shared/base/err.h"
#include "shared/plugin/codec_checks.h"

/* A callback that receives from other nodes: merge, adopt, on_message or on_collective. */
typedef int watch_read(const struct codec_plugin *p, struct codec *c, int from, struct wire_in *in);

struct watch_call {
    watch_read *read;
    const char *name; /* of the callback */
    struct codec *c;
    int from;
    const struct wire_in *in; /* NULL: a completed collective */
};

/* Called before the codec's callback. */
typedef void watch_receive(void *owner, const struct watch_call *call);

/* `page` is not copied. ERR_NOMEM. */
int watch_open(const struct codec_plugin *plugin, struct codec_check_page *page, struct err *e);
const struct codec_plugin *watch_plugin(void);            /* for the host */
void watch_receives(watch_receive *receive, void *owner); /* NULL: none */

/* Buffers that end at an inaccessible page, so that a read past the end is a fault: one for a message,
 * aligned to 4 bytes, and one for each of the first WATCH_VECTORS vectors read from it. */
enum { WATCH_MESSAGE, WATCH_VECTOR, WATCH_VECTORS = 3, WATCH_BUFFERS = WATCH_VECTOR + WATCH_VECTORS };
/* Returns `len` bytes at the end of a buffer, overwriting its previous content. */
unsigned char *watch_buffer(int buffer, size_t len);
/* Records in the page if `address` is beyond the content of a buffer. For a handler of SIGSEGV. */
void watch_fault(const void *address);

/* Record that the codec runs callback `name` on c's node, reading a message of `from`, and its end.
 * watch_leave() returns rc. */
void watch_enter(const char *name, const struct codec *c, int from);
/* The same while the codec's object is loaded ("load") or unloaded ("unload"); "" ends either. */
void watch_outside(struct codec_check_page *page, const char *name);
int watch_leave(int rc);

/* Counts an allocation by the code at `caller`, if that is the codec's own code (the host may allocate in
 * its calls) and the codec is past its second step and round. */
void watch_allocation(const void *caller);
uint64_t watch_allocations(void);
bool watch_sees_allocations(void); /* whether any was reported */

#endif
