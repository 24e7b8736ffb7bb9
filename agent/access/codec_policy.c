#include "agent/access/codec_policy.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "agent/access/digest_list.h"
#include "shared/base/file.h"
#include "shared/plugin/compile.h"

static bool has_digest(const char *dir, const char *name, const char *hex)
{
    uint8_t sum[SHA256_BYTES];
    char path[PATH_MAX], own[SHA256_HEX];
    uint64_t bytes;
    struct err e;

    if ((!file_has_ending(name, ".so") && !file_has_ending(name, ".c")) ||
        file_join(path, sizeof path, dir, name, &e) < 0 || sha256_file(sum, &bytes, path, &e) < 0)
        return false;
    hex_encode(own, sum, sizeof sum);
    return strcmp(own, hex) == 0;
}

/* A codec of this build, as object or as source. */
static bool is_builtin(const char *dir, const char *hex)
{
    DIR *d = opendir(dir);
    const struct dirent *f;
    bool found = false;

    while (d && !found && (f = readdir(d)) != NULL)
        found = has_digest(dir, f->d_name, hex);
    if (d)
        closedir(d);
    return found;
}

bool codec_is_builtin(const struct codec_rules *r, const char *object_hex, const char *source_hex,
                      enum codec_use use)
{
    const char *hex = use == CODEC_COMPILE ? source_hex : object_hex;

    return hex[0] && is_builtin(r->builtin_dir, hex);
}

/* Returns 1 if a file with this digest may be used, 0 if not, or an error. */
static int is_trusted(const struct codec_rules *r, const char *hex, struct err *e)
{
    int listed;

    if (!hex[0])
        return 0;
    if (r->policy == CODECS_ANY || is_builtin(r->builtin_dir, hex))
        return 1;
    listed = r->policy == CODECS_ALLOWLIST ? digest_list_has(r->list, hex, e) : 0;
    return listed < 0 ? (e->code = ERR_CODEC) : listed;
}

static int hint_list(const struct codec_rules *r, const char *hex, struct err *e)
{
    return err_hint(e, "To allow it, add a line with %s to %s on that agent's machine.", hex, r->list);
}

static int refuse_unknown(const struct codec_rules *r, const struct codec_offer *o, struct err *e)
{
    if (r->policy == CODECS_BUILTIN) {
        err_set(e, ERR_CODEC,
                "codec %s (SHA-256 %s) is not built into this agent, and it runs no other (--codecs builtin)",
                o->name, o->object_hex);
        return err_hint(e, "Built-in codecs match if agent and job_submit are of the same version.");
    }
    err_set(e, ERR_CODEC,
            "codec %s (SHA-256 %s%s%s) is neither built into this agent nor on its list (--codecs "
            "allowlist)",
            o->name, o->object_hex, o->source_hex[0] ? ", source " : "", o->source_hex);
    return hint_list(r, o->source_hex[0] ? o->source_hex : o->object_hex, e);
}

/* For a codec whose object is for another machine, or of which only the source is on the list. */
static int refuse_unusable(const struct codec_rules *r, const struct codec_offer *o,
                           const struct elf_kind *object, bool is_source_trusted, struct err *e)
{
    char theirs[24], ours[24];

    elf_machine(ours, &r->here);
    if (is_source_trusted) {
        err_set(e, ERR_CODEC, "codec %s must be compiled for %s on the agent's machine, which has no %s",
                o->name, ours, r->cc);
        return err_hint(e, "Install gcc or clang on that machine.");
    }
    elf_machine(theirs, object);
    if (!o->source_hex[0]) {
        err_set(e, ERR_CODEC, "codec %s is an object for %s, this machine is %s, and its source was not sent",
                o->name, theirs, ours);
        return err_hint(e, "Submit it as source: --codec FILE.c");
    }
    err_set(e, ERR_CODEC,
            "codec %s is an object for %s, this machine is %s, and its source (SHA-256 %s) is not on the "
            "agent's list",
            o->name, theirs, ours, o->source_hex);
    return hint_list(r, o->source_hex, e);
}

int codec_admit(enum codec_use *out, const struct codec_rules *r, const struct codec_offer *o, struct err *e)
{
    struct elf_kind kind = r->here;
    int object, source;

    if (o->object && elf_read(&kind, o->object, e) < 0) {
        e->code = ERR_CODEC;
        return err_at(e, "codec %s", o->name);
    }
    if (o->object && !kind.is_shared)
        return err_set(e, ERR_CODEC, "codec %s: its object is not a shared object", o->name);
    if ((object = is_trusted(r, o->object_hex, e)) < 0 || (source = is_trusted(r, o->source_hex, e)) < 0)
        return err_at(e, "codec %s", o->name);
    if (!object && !source)
        return refuse_unknown(r, o, e);
    *out = object && (!o->object || elf_fits(&kind, &r->here)) ? CODEC_LOAD : CODEC_COMPILE;
    if (*out == CODEC_COMPILE && !(source && compile_is_there(r->cc)))
        return refuse_unusable(r, o, &kind, source, e);
    return 0;
}

static enum isolation greater(enum isolation a, enum isolation b)
{
    return a > b ? a : b;
}

enum isolation isolation_for(const struct agent_isolation *is, bool is_builtin, enum isolation wanted)
{
    return greater(wanted, is_builtin && !is->is_required ? ISOLATION_NONE : is->required);
}

int isolation_admit(const struct agent_isolation *is, const char *codec, bool is_builtin,
                    enum isolation wanted, struct err *e)
{
    enum isolation needed = isolation_for(is, is_builtin, wanted);

    if (is->level >= needed)
        return 0;
    err_set(e, ERR_REFUSED, "codec %s needs isolation %s, and this machine has %s: %s", codec,
            isolation_name(needed), isolation_name(is->level),
            is->lacks[0] ? is->lacks : "it has not found out");
    if (wanted == needed)
        return err_hint(e, "Choose other agents, or a lower --require-isolation.");
    return err_hint(e, "That agent's --require-isolation %s allows it; built-in codecs run as it is.",
                    isolation_name(is->level));
}
