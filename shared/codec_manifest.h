/* codec_manifest -- codec.json, which travels with a codec: what it is, what it was made from, and with
 * what. */
#ifndef PSGD_CODEC_MANIFEST_H
#define PSGD_CODEC_MANIFEST_H

#include <jansson.h>

#include "shared/crypto.h"

enum { CODEC_MANIFEST_MAX = 64 << 10, CODEC_SOURCE_MAX = 1 << 20 }; /* bytes of the files */

/* The files of a codec's package. */
#define CODEC_OBJECT_NAME   "codec.so"
#define CODEC_SOURCE_NAME   "codec.c"
#define CODEC_MANIFEST_NAME "codec.json"

struct codec_manifest {
    char name[64];                  /* as its plug-in says */
    int abi;                        /* of the codec.h it was built against */
    char architecture[24];          /* of the object, as elf_machine() says */
    char compiler[256], flags[256]; /* that job_submit has compiled it with; "": it was an object already */
    char sha256[SHA256_HEX];        /* of the object: names the codec, whoever compiles its source again */
    char source_sha256[SHA256_HEX]; /* "": a user's own object came without */
};

json_t *codec_manifest_json(const struct codec_manifest *m);

/* ERR_CONFIG: not of this form, or built against another codec.h than this psgd's. */
int codec_manifest_parse(struct codec_manifest *out, const json_t *doc, struct err *e);
int codec_manifest_read(struct codec_manifest *out, const char *path, struct err *e);

#endif
