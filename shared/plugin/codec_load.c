#include "shared/plugin/codec_load.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/job/combine_path_kinds.h"
#include "shared/plugin/codec_options.h"
#include "shared/plugin/elf.h"

static int check_option_table(const struct codec_plugin *p, struct err *e)
{
    if (codec_options_check(p->options, p->state_size, e) < 0)
        return e->code;
    for (const struct codec_option *o = p->options; o && o->name; o++)
        for (const struct codec_option *own = codec_common_of(p); own && own->name; own++)
            if (strcmp(o->name, own->name) == 0)
                return err_set(e, ERR_CODEC, "parameter %s is reserved by the host (%s)", o->name, own->help);
    return 0;
}

static int check_lists(const struct codec_plugin *p, struct err *e)
{
    const struct {
        const char *field;
        unsigned value, max;
    } lists[] = {{"compression", codec_more(p)->compression, CODEC_COMPRESSION_MAX},
                 {"limits", p->limits, CODEC_LIMITS_MAX},
                 {"result", codec_more(p)->result, CODEC_RESULT_MAX}};

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].value > lists[i].max)
            return err_set(e, ERR_CODEC, ".%s is %u, and codec_events.h lists values up to %u",
                           lists[i].field, lists[i].value, lists[i].max);
    return 0;
}

static int check_combine(const struct codec_plugin *p, struct err *e)
{
    const struct codec_combine *r = p->combine;
    bool is_each_step = r->when == CODEC_EACH_STEP;
    const struct {
        bool is_wrong;
        const char *why;
    } rules[] = {
        {r->when > CODEC_EACH_ROUND, ".when is neither CODEC_EACH_STEP nor CODEC_EACH_ROUND"},
        {r->reduction > CODEC_SUM, ".reduction is neither CODEC_MEAN nor CODEC_SUM"},
        {r->n_vectors < 0 || r->n_vectors > CODEC_VECTORS_MAX, ".n_vectors is not 0 to 8"},
        {r->n_numbers < 0 || r->n_numbers > CODEC_NUMBERS_MAX, ".n_numbers is not 0 to 64"},
        {!r->contribute && (r->n_vectors > 1 || r->n_numbers > 0),
         "it has several vectors, or numbers, and no contribute()"},
        {!r->contribute && r->reduction == CODEC_SUM && !is_each_step,
         "it sums parameters, and has no contribute()"},
        {is_each_step && (r->keeps_global || r->adopt || r->on_gradient),
         "keeps_global, adopt() and on_gradient() are for CODEC_EACH_ROUND"},
        {r->contributes_change && (!r->keeps_global || r->contribute || !r->apply),
         "contributes_change needs keeps_global and apply(), and no contribute()"},
        {r->adopt && !r->keeps_global, "it has adopt() without keeps_global"},
        {codec_more(p)->updates_on_server && (!is_each_step || r->apply),
         "updates_on_server needs CODEC_EACH_STEP without apply()"},
    };

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].is_wrong)
            return err_set(e, ERR_CODEC, "%s", rules[i].why);
    return 0;
}

static bool has_layout(const struct codec_plugin *p)
{
    return p->layout[0] == CODEC_ABI && p->layout[1] == sizeof *p && p->layout[2] == sizeof(struct codec) &&
           (!p->more ||
            (p->more->layout[0] == sizeof *p->more && p->more->layout[1] == sizeof(struct codec_run) &&
             p->more->layout[2] == sizeof(struct codec_host)));
}

static int check_plugin(const struct codec_plugin *p, const char *path, struct err *e)
{
    const struct codec_round *r = codec_more(p)->round;

    if (!has_layout(p)) {
        err_set(e, ERR_CODEC, "%s: built against codec.h with ABI %u; this psgd has ABI %d, or other sizes",
                path, p->layout[0], CODEC_ABI);
        return err_hint(e, "Compile the codec again with this psgd's codec.h. " CODEC_ABI_CHANGES ".");
    }
    if (!p->name || !codec_is_name(p->name))
        return err_set(e, ERR_CODEC, "%s: the codec's name is not 1 to 32 of a-z, 0-9 and _", path);
    if (!p->combine + !r + !codec_more(p)->events != 2)
        return err_set(e, ERR_CODEC, "%s: codec %s needs combine, round or events, exactly one", path,
                       p->name);
    if (p->combine && check_combine(p, e) < 0)
        return err_at(e, "%s: codec %s", path, p->name);
    if (r && (!r->encode || !r->merge))
        return err_set(e, ERR_CODEC, "%s: the round of codec %s has no encode or no merge", path, p->name);
    if (r && !r->reply != !r->adopt)
        return err_set(e, ERR_CODEC,
                       "%s: the round of codec %s has reply without adopt, or adopt without reply", path,
                       p->name);
    if (r && r->per_block && !r->before_update)
        return err_set(e, ERR_CODEC, "%s: the round of codec %s is per_block without before_update", path,
                       p->name);
    if (r && r->per_block && r->reply)
        return err_set(e, ERR_CODEC, "%s: the round of codec %s is per_block and has a server side", path,
                       p->name);
    if (codec_more(p)->updates_on_server && r && !r->reply)
        return err_set(e, ERR_CODEC, "%s: codec %s updates on servers and has no server side", path, p->name);
    if ((p->limits & CODEC_NO_SSGD) && (p->limits & CODEC_NO_ASGD))
        return err_set(e, ERR_CODEC, "%s: codec %s excludes both ssgd and asgd (.limits): no job can use it",
                       path, p->name);
    if (p->state_size > CODEC_STATE_MAX)
        return err_set(
            e, ERR_CODEC,
            "%s: codec %s: .state_size is %zu bytes, expected at most %zu (1 GiB); what grows with "
            "the model comes from zeros()",
            path, p->name, p->state_size, CODEC_STATE_MAX);
    for (const size_t *at = p->vectors; at && *at != SIZE_MAX; at++)
        if (*at > p->state_size || p->state_size - *at < sizeof(float *))
            return err_set(e, ERR_CODEC, "%s: codec %s: .vectors names byte %zu of a state of %zu bytes",
                           path, p->name, *at, p->state_size);
    return check_lists(p, e) < 0 || check_option_table(p, e) < 0 ? err_at(e, "%s: codec %s", path, p->name)
                                                                 : 0;
}

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

bool codec_is_star(const struct codec_plugin *p, int n_servers)
{
    return n_servers > 0 && !codec_more(p)->events;
}

enum codec_result codec_result(const struct codec_plugin *p)
{
    const struct codec_combine *r = p->combine;

    if (!r || codec_more(p)->result != CODEC_EQUAL_RESULT)
        return codec_more(p)->result;
    if (codec_more(p)->overlaps || r->contribute || r->apply || r->adopt || r->on_gradient)
        return CODEC_EQUAL_RESULT;
    return r->when == CODEC_EACH_ROUND ? CODEC_MEAN_OF_PARAMETERS
           : r->reduction == CODEC_SUM ? CODEC_SUM_OF_GRADIENTS
                                       : CODEC_MEAN_OF_GRADIENTS;
}

unsigned codec_limits(const struct codec_plugin *p)
{
    const struct codec_round *r = codec_more(p)->round;
    bool is_whole = r            ? r->before_update && !r->per_block
                    : p->combine ? p->combine->contribute != NULL && p->combine->when == CODEC_EACH_STEP
                                 : false;
    bool has_global = p->combine && p->combine->keeps_global;

    return p->limits | (is_whole ? CODEC_WHOLE_GRADIENTS : 0) | (has_global ? CODEC_ASGD_NEEDS_SERVERS : 0) |
           (codec_more(p)->events && !codec_more(p)->events->on_lost ? CODEC_NO_ON_LOST : 0) |
           (codec_more(p)->updates_on_server && codec_more(p)->events ? CODEC_CLIPS_A_RANGE : 0) |
           (codec_more(p)->updates_on_server && (r || (p->combine && p->combine->contribute))
                ? CODEC_CLIPS_A_RANGE_IN_ASGD
                : 0);
}

int codec_check_limits(const char *name, unsigned limits, const struct codec_job *job, struct err *e)
{
    if ((limits & CODEC_NO_ON_LOST) && job->goes_on) {
        err_set(e, ERR_CODEC, "codec %s has no on_lost(): it cannot continue after a node is lost", name);
        return err_hint(
            e, "Leave --on-node-loss continue out, or take a rule of rounds, such as plain or fedavg.");
    }
    if ((limits & CODEC_WHOLE_GRADIENTS) && job->n_blocks != job->n_workers)
        return err_set(
            e, ERR_CODEC,
            "codec %s exchanges one gradient per worker; it cannot use redundant blocks or --block-ratio",
            name);
    if ((limits & CODEC_NO_SERVERS) && job->n_servers > 0)
        return err_set(e, ERR_CODEC, "codec %s is for workers only; leave the parameter servers out", name);
    if ((limits & CODEC_NO_ASGD) && !job->is_sync)
        return err_set(e, ERR_CODEC,
                       "codec %s needs the message of every worker in an exchange; it does not support asgd",
                       name);
    if ((limits & CODEC_NO_SSGD) && job->is_sync) {
        err_set(e, ERR_CODEC, "codec %s is asynchronous; it does not support ssgd", name);
        return err_hint(e, "Take --parallel_sgd asgd.");
    }
    if ((limits & CODEC_ASGD_NEEDS_SERVERS) && !job->is_sync && job->n_servers == 0)
        return err_set(e, ERR_CODEC,
                       "codec %s needs parameter servers in asgd: they hold the state that workers share",
                       name);
    if ((limits & CODEC_NO_OVERLAP) && job->overlap == OVERLAP_ONE) {
        err_set(
            e, ERR_CODEC,
            "codec %s needs each combination before its next local steps; it does not support --overlap 1",
            name);
        return err_hint(e, "Leave --overlap out.");
    }
    if (job->n_servers > 1 && job->clips &&
        ((limits & CODEC_CLIPS_A_RANGE) || ((limits & CODEC_CLIPS_A_RANGE_IN_ASGD) && !job->is_sync))) {
        err_set(e, ERR_CODEC,
                "codec %s: each of the %d parameter servers updates its part of the model at its own time, "
                "so no node "
                "has the whole gradient, whose norm --clip-norm limits",
                name, job->n_servers);
        return err_hint(e, "Take one server, or ps, whose workers send the norm of the whole gradient.");
    }
    if ((limits & CODEC_NO_REDUNDANCY) && job->redundancy > 1)
        return err_set(e, ERR_CODEC, "codec %s waits for every worker: it cannot use redundant blocks", name);
    return 0;
}

/* Removes the name of the copy, meaningless to users, from the beginning of dlerror's message. */
static int cannot_load(const char *path, const char *copy, struct err *e)
{
    const char *why = dlerror();
    size_t n = strlen(copy);

    if (strncmp(why, copy, n) == 0 && strncmp(why + n, ": ", 2) == 0)
        why += n + 2;
    return err_set(e, ERR_CODEC, "%s: %s", path, why);
}

/* dlclose() may leave an object loaded (-z nodelete, threads with destructors), under the name of its copy,
 * which has the number of the descriptor. The descriptor of such an object stays open: otherwise the next
 * copy could get its number, and dlopen() would return the old object. */
static void unload(struct codec_library *l)
{
    char copy[FILE_FD_PATH];
    void *still;

    file_fd_path(copy, l->fd);
    if (l->handle)
        dlclose(l->handle);
    still = dlopen(copy, RTLD_NOLOAD | RTLD_LAZY);
    if (still)
        dlclose(still);
    else
        close(l->fd);
}

/* The table of a kind of plug-in: `macro` of `header` defines it as the object's `symbol`. */
struct plugin_table {
    const char *symbol, *kind, *macro, *header;
};

/* The hint names the option for an object of the other kind. */
static int no_symbol(const struct codec_library *l, const char *path, const struct plugin_table *s,
                     struct err *e)
{
    err_set(e, ERR_CODEC, "%s: not %s %s: it has no symbol %s (see %s in %s)", path,
            strchr("aeiou", s->kind[0]) ? "an" : "a", s->kind, s->symbol, s->macro, s->header);
    if (dlsym(l->handle, CODEC_SYMBOL))
        return err_hint(e, "It is a codec, a rule for training: job_submit --codec FILE");
    if (dlsym(l->handle, EXECUTOR_SYMBOL))
        return err_hint(e, "It is an executor: job_submit run --exec FILE");
    return e->code;
}

static int load_table(const void **out, struct codec_library *l, const char *path,
                      const struct plugin_table *table, struct err *e)
{
    char copy[FILE_FD_PATH];

    file_fd_path(copy, l->fd);
    l->handle = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle)
        return cannot_load(path, copy, e);
    *out = dlsym(l->handle, table->symbol);
    return *out ? 0 : no_symbol(l, path, table, e);
}

static int load_codec(struct codec_library *l, const char *path, struct err *e)
{
    static const struct plugin_table table = {CODEC_SYMBOL, "codec", "CODEC_PLUGIN", "codec.h"};
    const void *plugin;

    if (load_table(&plugin, l, path, &table, e) < 0)
        return e->code;
    l->plugin = plugin;
    return check_plugin(l->plugin, path, e);
}

static int load_executor(struct codec_library *l, const char *path, struct err *e)
{
    static const struct plugin_table table = {EXECUTOR_SYMBOL, "executor", "EXECUTOR_PLUGIN", "executor.h"};
    const void *plugin;

    if (load_table(&plugin, l, path, &table, e) < 0)
        return e->code;
    l->executor = plugin;
    return check_executor(l->executor, path, e);
}

int codec_library_copy(struct codec_library *l, const char *path, struct err *e)
{
    char copy[FILE_FD_PATH];
    struct codec_library t = {0};
    uint8_t digest[SHA256_BYTES];
    struct elf_kind kind;
    uint64_t bytes;

    if (elf_read(&kind, path, e) < 0) {
        e->code = ERR_CODEC;
        return err_hint(e,
                        "A codec is a C file, NAME.c, or an object made of one; job_submit codecs new NAME "
                        "writes one to begin with.");
    }
    t.fd = file_copy_to_memory(path, CODEC_OBJECT_MAX, e);
    if (t.fd < 0)
        return e->code = ERR_CODEC;
    file_fd_path(copy, t.fd);
    if (sha256_file(digest, &bytes, copy, e) < 0) {
        close(t.fd);
        err_at(e, "%s", path);
        return e->code = ERR_CODEC;
    }
    hex_encode(t.sha256, digest, sizeof digest);
    *l = t;
    return 0;
}

int codec_library_load(struct codec_library *l, const char *path, struct err *e)
{
    if (load_codec(l, path, e) == 0)
        return 0;
    codec_library_drop(l);
    return e->code = ERR_CODEC;
}

int codec_library_load_executor(struct codec_library *l, const char *path, struct err *e)
{
    if (load_executor(l, path, e) == 0)
        return 0;
    codec_library_drop(l);
    return e->code = ERR_CODEC;
}

int codec_library_open(struct codec_library *l, const char *path, struct err *e)
{
    struct codec_library t;

    if (codec_library_copy(&t, path, e) < 0 || codec_library_load(&t, path, e) < 0)
        return e->code;
    *l = t;
    return 0;
}

int codec_library_open_executor(struct codec_library *l, const char *path, struct err *e)
{
    struct codec_library t;

    if (codec_library_copy(&t, path, e) < 0)
        return err_hint(e, "An executor is a C file, NAME.c, or an object made of one; docs/executors.md.");
    if (codec_library_load_executor(&t, path, e) < 0)
        return e->code;
    *l = t;
    return 0;
}

void codec_library_drop(struct codec_library *l)
{
    unload(l);
    *l = (struct codec_library){0};
}

void codec_library_close(struct codec_library *l)
{
    if (l->handle)
        codec_library_drop(l);
}
