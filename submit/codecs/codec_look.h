/* codec_look -- finds a codec or an executor by the name that the user gives, compiles it if it is a source,
 * and loads it to inspect it. */
#ifndef PSGD_SUBMIT_CODEC_LOOK_H
#define PSGD_SUBMIT_CODEC_LOOK_H

#include <jansson.h>

#include "submit/codecs/codec_find.h"
#include "submit/codecs/codec_probe.h"
#include "submit/files/temp.h"

struct codec_look {
    struct codec_file file;
    const char *const *also; /* of codec_look_open */
    char object[PATH_MAX];   /* what is shipped: the file, or the object compiled from it in `temp` */
    struct temp temp;
    struct codec_facts facts;
    const char *cc; /* the compiler used if it is source: $CC, or cc */
};

/* `text` is "NAME|FILE[:KEY=VALUE,...]". `also` as in find_codec(). ERR_CODEC, ERR_NOMEM; the message
 * begins with `text`. */
int codec_look_open(struct codec_look *l, const char *text, const char *const *also, struct err *e);
/* The same for an executor's file; the message begins with "executor FILE". */
int executor_look_open(struct codec_look *l, const char *path, struct err *e);
void codec_look_close(struct codec_look *l); /* removes the compiled object */

const char *codec_runs_by(const struct codec_facts *f); /* "combination", "rounds", "events" or "executor" */
/* Can the codec be used with parameter servers? */
bool codec_has_server_side(const struct codec_facts *f);
/* Do its servers send parameters? A lossy --compress-down then sends their differences. */
bool codec_servers_send_params(const struct codec_facts *f, bool is_sync);
/* Returns the description of the codec in run.json and `codecs show`. NULL: out of memory. */
json_t *codec_look_json(const struct codec_look *l);

#endif
