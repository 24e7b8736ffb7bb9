#include "shared/records/checkpoint_meta.h"

#include <stdio.h>
#include <string.h>

bool checkpoint_meta_is(const struct tensor_file *f)
{
    const char *format = tensor_file_meta(f, "format");

    return format && strcmp(format, CHECKPOINT_FORMAT) == 0;
}

const char *checkpoint_meta_prefix(const struct tensor_file *f)
{
    return checkpoint_meta_is(f) ? "model/" : "";
}

int checkpoint_meta_get(const char **out, const struct tensor_file *f, const char *key, struct err *e)
{
    *out = tensor_file_meta(f, key);
    return *out ? 0 : err_set(e, ERR_CONFIG, "its metadata has no \"%s\"", key);
}

int checkpoint_meta_check_node(const struct tensor_file *f, int node, struct err *e)
{
    const char *format, *version, *owner;
    char own[16];

    if (checkpoint_meta_get(&format, f, "format", e) < 0)
        return e->code;
    if (!checkpoint_meta_is(f))
        return err_set(e, ERR_CONFIG, "its format is \"%.64s\", expected " CHECKPOINT_FORMAT, format);
    if (checkpoint_meta_get(&version, f, "version", e) < 0)
        return e->code;
    if (strcmp(version, CHECKPOINT_VERSION) != 0)
        return err_set(e, ERR_CONFIG, "it has version \"%.64s\", this psgd reads " CHECKPOINT_VERSION,
                       version);
    if (checkpoint_meta_get(&owner, f, "node", e) < 0)
        return e->code;
    snprintf(own, sizeof own, "%d", node);
    return strcmp(owner, own) == 0
               ? 0
               : err_set(e, ERR_CONFIG, "it belongs to node %.16s, not to node %s", owner, own);
}

int checkpoint_meta_check_codec(const struct tensor_file *f, const char *codec, const char *sha256,
                                struct err *e)
{
    const char *text;

    if (checkpoint_meta_get(&text, f, "codec_sha256", e) < 0)
        return e->code;
    if (strcmp(text, sha256) == 0)
        return 0;
    return err_set(e, ERR_CONFIG,
                   "it was written by another build of codec %s (SHA-256 %.64s, now %s), which may lay out "
                   "its state differently",
                   codec, text, sha256);
}
