/* codec_same -- is a codec's file what it was in an earlier run? */
#ifndef PSGD_SUBMIT_CODEC_SAME_H
#define PSGD_SUBMIT_CODEC_SAME_H

#include <jansson.h>
#include <stdbool.h>

/* Is the SHA-256 of the file's bytes this one, in hex digits? false: not, or it cannot be read. */
bool codec_has_sum(const char *path, const char *sha256);

/* `name` as in find_codec(), `facts` a codec's in run.json. Compared are the sums of its source, or of a
 * codec without one of its object. false: it has changed, or there is none now. */
bool codec_is_same(const char *name, const json_t *facts);

#endif
