#include "shared/plugin/codec_manifest.h"

#include "codecs/codec_events.h"
#include "codecs/executor.h"
#include "shared/base/json.h"

#define AT(member) JSON_AT(struct codec_manifest, member)

static const struct json_field fields[] = {
    {.key = "name", .kind = JSON_FIELD_TEXT, AT(name), .required = true},
    {.key = "executor", .kind = JSON_FIELD_BOOL, AT(is_executor)},
    {.key = "abi", .kind = JSON_FIELD_INT, AT(abi), .required = true, .max = 1e6},
    {.key = "architecture", .kind = JSON_FIELD_TEXT, AT(architecture), .required = true},
    {.key = "compiler", .kind = JSON_FIELD_TEXT, AT(compiler)},
    {.key = "flags", .kind = JSON_FIELD_TEXT, AT(flags)},
    {.key = "sha256", .kind = JSON_FIELD_TEXT, AT(sha256), .required = true},
    {.key = "source_sha256", .kind = JSON_FIELD_TEXT, AT(source_sha256)},
    {0},
};

json_t *codec_manifest_json(const struct codec_manifest *m)
{
    json_t *o = json_from_struct(m, fields);
    const char *key;
    json_t *v;
    void *next;

    json_object_foreach_safe(o, next, key,
                             v) if (json_is_false(v) || (json_is_string(v) && !json_string_length(v)))
        json_object_del(o, key);
    return o;
}

int codec_manifest_parse(struct codec_manifest *out, const json_t *doc, struct err *e)
{
    struct codec_manifest m = {0};
    int abi;

    if (json_to_struct(&m, doc, fields, "", e) < 0)
        return e->code;
    if (!is_sha256_hex(m.sha256) || (m.source_sha256[0] && !is_sha256_hex(m.source_sha256)))
        return err_set(e, ERR_CONFIG, "/sha256: not a SHA-256 in 64 lower-case hex digits");
    abi = m.is_executor ? EXECUTOR_ABI : CODEC_ABI;
    if (m.abi != abi) {
        const char *kind = m.is_executor ? "executor" : "codec";

        err_set(e, ERR_CONFIG, "/abi: %s %s is built against %s.h with ABI %d; this psgd has ABI %d", kind,
                m.name, kind, m.abi, abi);
        return err_hint(e, "Compile the %s again with this psgd's %s.h.", kind, kind);
    }
    *out = m;
    return 0;
}

int codec_manifest_read(struct codec_manifest *out, const char *path, struct err *e)
{
    json_t *doc;
    int rc;

    if (json_read(&doc, path, CODEC_MANIFEST_MAX, e) < 0)
        return e->code;
    rc = codec_manifest_parse(out, doc, e);
    json_decref(doc);
    return rc < 0 ? err_at(e, "%s", path) : 0;
}
