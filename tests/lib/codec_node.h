/* codec_node -- one node of a job, over mesh_mem, with a codec of functions of the test. There is no
 * training: the test calls the exchange, and the codec's callbacks call the function in codec_calls. */
#ifndef PSGD_TEST_CODEC_NODE_H
#define PSGD_TEST_CODEC_NODE_H

#include "runner/exchange/exchange.h"
#include "shared/job/blocks.h"
#include "tests/lib/mesh_mem.h"

/* Layers "first" (2, 3), "second" (2) and "third" (2, 2). */
enum { CODEC_NODE_PARAMS = 12 };

/* Callbacks have no pointer of the test's, so this is a global. */
extern struct codec_calls {
    struct codec *codec;        /* that open() was called for last */
    int (*act)(struct codec *); /* what open() and the events but on_message do; NULL: nothing */
    int n;                      /* events so far; a lost node k counts 100 * (k + 1) */
    int on_lost;                /* returned by on_lost() */
} codec_calls;

/* on_grad, on_message (which waits), on_lost and on_wake, by `codec_calls`. */
extern const struct codec_events codec_node_events;

struct codec_node {
    struct codec_plugin plugin;
    struct codec_more more;
    struct exchange_config cfg;
    struct blocks blocks;
    struct mesh_mem *net;
    struct exchange *x;
    struct codec *codec; /* of its last channel */
    float params[CODEC_NODE_PARAMS], grads[CODEC_NODE_PARAMS];
    struct { /* the last update that the codec requested */
        size_t from, n;
        uint64_t step;
        float lr_factor;
    } updated;
    char recorded[64]; /* "NODE STEP NAME VALUE" of the last record */
};

/* Opens node `node` of a job of two workers and n_servers servers, and its mesh, with a copy of the plug-in
 * named "made". Returns the error of exchange_new if that fails; then there is nothing to close. */
int codec_node_open(struct codec_node *f, const struct codec_plugin *plugin, int node, int n_servers,
                    struct err *e);
void codec_node_close(struct codec_node *f); /* also sets codec_calls.act to NULL */

#endif
