/* codec_manifest -- codec.json, sent with a codec or an executor: its name, object, source and compiler. */
#ifndef PSGD_CODEC_MANIFEST_H
#define PSGD_CODEC_MANIFEST_H

#include <jansson.h>
#include <stdbool.h>

#include "shared/base/crypto.h"

enum { CODEC_MANIFEST_MAX = 64 << 10, CODEC_SOURCE_MAX = 1 << 20 }; /* bytes of the files */

/* The files of a codec's package. */
#define CODEC_OBJECT_NAME   "codec.so"
#define CODEC_SOURCE_NAME   "codec.c"
#define CODEC_MANIFEST_NAME "codec.json"

struct codec_manifest {
    char name[64];                  /* as in its plug-in */
    bool is_executor;               /* else it is a codec */
    int abi;                        /* of the executor.h or codec.h it was built against */
    char architecture[24];          /* of the object, as from elf_machine() */
    char compiler[256], flags[256]; /* by which job_submit compiled the object; "": the user compiled it */
    /* Of the object sent; it identifies the codec even on a machine that compiles the source again. */
    char sha256[SHA256_HEX];
    char source_sha256[SHA256_HEX]; /* "": an object without source */
};

json_t *codec_manifest_json(const struct codec_manifest *m);

/* ERR_CONFIG: invalid, or built against another codec.h, or executor.h, than this psgd's. */
int codec_manifest_parse(struct codec_manifest *out, const json_t *doc, struct err *e);
int codec_manifest_read(struct codec_manifest *out, const char *path, struct err *e);

#endif
