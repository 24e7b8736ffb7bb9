#include "submit/codecs/codec_same.h"

#include <string.h>

#include "shared/base/crypto.h"
#include "shared/base/file.h"
#include "submit/codecs/codec_find.h"

bool codec_has_sum(const char *path, const char *sha256)
{
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];
    struct err ignored;
    uint64_t bytes;

    if (sha256_file(sum, &bytes, path, &ignored) < 0)
        return false;
    hex_encode(hex, sum, sizeof sum);
    return strcmp(hex, sha256) == 0;
}

bool codec_is_same(const char *name, const json_t *facts)
{
    const char *of_source = json_string_value(json_object_get(facts, "source_sha256"));
    const char *of_object = json_string_value(json_object_get(facts, "sha256"));
    char exe_dir[PATH_MAX];
    struct codec_file found;
    struct err ignored;

    if (file_exe_dir(exe_dir, sizeof exe_dir, &ignored) < 0 ||
        find_codec(&found, name, exe_dir, NULL, &ignored) < 0)
        return false;
    if (of_source && of_source[0])
        return codec_has_sum(found.source[0] ? found.source : found.path, of_source);
    return of_object && codec_has_sum(found.path, of_object);
}
