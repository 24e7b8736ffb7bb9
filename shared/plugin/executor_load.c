#include "shared/plugin/executor_load.h"

#include "shared/plugin/codec_options.h"

static int check_executor(const struct executor_plugin *p, const char *path, struct err *e)
{
    if (p->abi != EXECUTOR_ABI || p->plugin_size != sizeof *p ||
        p->executor_size != sizeof(struct executor) || p->host_size != sizeof(struct executor_host)) {
        err_set(
            e, ERR_CODEC,
            "%s: built against executor.h with ABI %u (sizes %u, %u, %u); this psgd has ABI %d (sizes %zu, "
            "%zu, %zu)",
            path, p->abi, p->plugin_size, p->executor_size, p->host_size, EXECUTOR_ABI, sizeof *p,
            sizeof(struct executor), sizeof(struct executor_host));
        return err_hint(e, "Compile the executor again with this psgd's executor.h.");
    }
    if (!p->name || !codec_is_name(p->name))
        return err_set(e, ERR_CODEC, "%s: the executor's name is not 1 to 32 of a-z, 0-9 and _", path);
    if (!p->run)
        return err_set(e, ERR_CODEC, "%s: executor %s has no run()", path, p->name);
    return 0;
}

static int load_executor(struct codec_library *l, const char *path, struct err *e)
{
    static const struct codec_symbol symbol = {EXECUTOR_SYMBOL, "executor", "EXECUTOR_PLUGIN", "executor.h"};
    const void *plugin;

    if (codec_library_symbol(&plugin, l, path, &symbol, e) < 0)
        return e->code;
    l->executor = plugin;
    return check_executor(l->executor, path, e);
}

int executor_library_load(struct codec_library *l, const char *path, struct err *e)
{
    if (load_executor(l, path, e) == 0)
        return 0;
    codec_library_drop(l);
    return e->code = ERR_CODEC;
}

int executor_library_open(struct codec_library *l, const char *path, struct err *e)
{
    struct codec_library t;

    if (codec_library_copy(&t, path, e) < 0)
        return err_hint(e, "An executor is a C file, NAME.c, or an object made of one; docs/executors.md.");
    if (executor_library_load(&t, path, e) < 0)
        return e->code;
    *l = t;
    return 0;
}
