/* codec_look -- a codec by the word a user gives: found, compiled if it is source, loaded for a look. */
#ifndef PSGD_SUBMIT_CODEC_LOOK_H
#define PSGD_SUBMIT_CODEC_LOOK_H

#include <jansson.h>

#include "submit/codecs/find.h"
#include "submit/codecs/probe.h"
#include "submit/temp.h"

struct codec_look {
    struct codec_file file;
    char object[PATH_MAX]; /* what is shipped: the file, or what it was compiled to in `temp` */
    struct temp temp;
    struct codec_facts facts;
    const char *cc; /* what has compiled it, if it is source: $CC, or cc */
};

/* `word` is "NAME|FILE[:KEY=VALUE,...]". ERR_CODEC, ERR_NOMEM; the sentence begins with the word. */
int codec_look_open(struct codec_look *l, const char *text, struct err *e);
void codec_look_close(struct codec_look *l); /* takes the compiled object away */

/* Can its job have parameter servers? */
bool codec_has_server_side(const struct codec_facts *f);
/* What run.json and `codecs show` say of it. NULL: no memory. */
json_t *codec_look_json(const struct codec_look *l);

#endif
