#include "submit/codecs/codec_look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/plugin/codec_load.h"
#include "shared/plugin/codec_options.h"
#include "shared/plugin/combine_path.h"
#include "shared/plugin/compile.h"

/* Removes a leading "PATH: " that the message repeats, or that names a temporary file. */
static void drop_path(struct err *e, const char *path)
{
    size_t n = strlen(path);

    if (strncmp(e->text, path, n) == 0 && strncmp(e->text + n, ": ", 2) == 0)
        memmove(e->text, e->text + n + 2, strlen(e->text + n + 2) + 1);
}

/* If the compiler has failed, and has removed its output, because the disk is full, the error is that of the
 * disk. */
static int compile(struct codec_look *l, const char *exe_dir, struct err *e)
{
    struct err full;

    if (file_join(l->object, sizeof l->object, l->temp.path, "codec.so", e) < 0)
        return e->code;
    if (compile_codec(l->cc, l->file.path, l->object, exe_dir, e) == 0)
        return 0;
    if (temp_check_room(&l->temp, &full) < 0)
        *e = full;
    return e->code;
}

/* Sets l->object to the codec's file, or to the object compiled from it if it is a source. */
static int make_object(struct codec_look *l, const char *exe_dir, struct err *e)
{
    l->cc = getenv("CC");
    if (!l->cc || !l->cc[strspn(l->cc, " \t")])
        l->cc = "cc";
    memcpy(l->object, l->file.path, sizeof l->object);
    return l->file.is_source ? compile(l, exe_dir, e) : 0;
}

static int look_up_codec(struct codec_look *l, const char *text, struct err *e)
{
    size_t n = codec_options_at(text);
    char exe_dir[PATH_MAX], name[PATH_MAX];

    snprintf(name, sizeof name, "%.*s", (int)n, text);
    if (file_exe_dir(exe_dir, sizeof exe_dir, e) < 0 || find_codec(&l->file, name, exe_dir, l->also, e) < 0)
        return e->code;
    if (make_object(l, exe_dir, e) == 0 &&
        codec_probe(&l->facts, l->object, text[n] ? text + n + 1 : "", e) == 0)
        return 0;
    drop_path(e, l->object);
    drop_path(e, name);
    return err_at(e, "codec %s", text);
}

static int look_at_executor(struct codec_look *l, const char *path, struct err *e)
{
    char exe_dir[PATH_MAX];

    if (file_exe_dir(exe_dir, sizeof exe_dir, e) == 0 && find_executor(&l->file, path, e) == 0 &&
        make_object(l, exe_dir, e) == 0 && executor_probe(&l->facts, l->object, e) == 0)
        return 0;
    drop_path(e, l->object);
    drop_path(e, path);
    return err_at(e, "executor %s", path);
}

static int open_look(struct codec_look *l, int (*of)(struct codec_look *, const char *, struct err *),
                     const char *text, struct err *e)
{
    if (temp_open(&l->temp, e) < 0)
        return e->code;
    if (of(l, text, e) == 0)
        return 0;
    temp_close(&l->temp);
    return e->code = e->code == ERR_NOMEM || e->code == ERR_NOSPACE ? e->code : ERR_CODEC;
}

int codec_look_open(struct codec_look *l, const char *text, const char *const *also, struct err *e)
{
    l->also = also;
    return open_look(l, look_up_codec, text, e);
}

int executor_look_open(struct codec_look *l, const char *path, struct err *e)
{
    return open_look(l, look_at_executor, path, e);
}

void codec_look_close(struct codec_look *l)
{
    temp_close(&l->temp);
}

bool codec_has_server_side(const struct codec_facts *f)
{
    return f->has_events ? !(f->limits & CODEC_NO_SERVERS) : f->has_adopt;
}

const char *codec_runs_by(const struct codec_facts *f)
{
    return f->is_executor ? "executor" : f->combines ? "combination" : f->has_events ? "events" : "rounds";
}

/* "2 x 4 n_params bytes", or "12 + 4 n_params bytes"; `of`: " S" for each of S servers. */
static void bytes_of(char *out, size_t size, const struct codec_facts *f, int n_alone, const char *of)
{
    char alone[24] = "", times[16] = "";

    if (n_alone > 0)
        snprintf(alone, sizeof alone, "%d%s + ", 4 * n_alone, of);
    if (f->n_vectors > 1)
        snprintf(times, sizeof times, "%d x ", f->n_vectors);
    snprintf(out, size, "%s%s4 n_params bytes", alone, times);
}

/* The cost with S servers. In ssgd a reply has the combination, and, if the rule says what workers
 * contribute, its weight, which is 0 if nothing was combined. In asgd a message also has the number of the
 * weights that it was computed from, and a reply has the new weights. */
static json_t *cost_of_servers(const struct codec_facts *f)
{
    /* In asgd, workers that updated by gradients of servers would have different weights. */
    bool has_asgd = !(f->limits & CODEC_NO_ASGD) && (f->sends_params || f->updates_on_server);
    bool has_ssgd = !(f->limits & CODEC_NO_SSGD);
    char up[64], down[64], up_late[64];

    bytes_of(up, sizeof up, f, f->has_weights + f->n_numbers, " S");
    bytes_of(up_late, sizeof up_late, f, 1 + f->has_weights + f->n_numbers, " S");
    bytes_of(down, sizeof down, f, f->says_contribution + f->n_numbers, " S");
    if (f->updates_on_server)
        snprintf(down, sizeof down, "4 n_params bytes");
    if (!has_asgd)
        return json_sprintf("%s to S servers together, and %s back", up, down);
    return json_sprintf("%s%s%s%s%s to S servers together, and 4 S + 4 n_params bytes back",
                        has_ssgd ? up : "", has_ssgd ? " to S servers together, and " : "",
                        has_ssgd ? down : "", has_ssgd ? " back; asgd: " : "", up_late);
}

/* What a rule that combines sends in one exchange: {"gather": "...", ...}. */
static json_t *costs_of_paths(const struct codec_facts *f)
{
    char up[64], numbers[64];
    json_t *costs = json_object();

    bytes_of(up, sizeof up, f, f->has_weights + f->n_numbers, "");
    bytes_of(numbers, sizeof numbers, f, 0, "");
    if (!f->updates_on_server) {
        json_object_set_new(costs, combine_path_name(COMBINE_PATH_ALLREDUCE),
                            json_sprintf("2 (n - 1) / n x %s each way, by ring", numbers));
        json_object_set_new(
            costs, combine_path_name(COMBINE_PATH_TREE),
            json_sprintf("2 (m - 1) / m x %s each way, by one worker of each of m machines", numbers));
    }
    if (!f->updates_on_server && !f->overlaps) {
        json_object_set_new(
            costs, combine_path_name(COMBINE_PATH_GATHER),
            f->per_block ? json_sprintf("%s for each own block to each worker that does not hold it", up)
                         : json_sprintf("%s to each other worker", up));
    }
    if (codec_has_server_side(f))
        json_object_set_new(costs, combine_path_name(COMBINE_PATH_SERVERS), cost_of_servers(f));
    return costs;
}

static json_t *parsed(const char *text)
{
    return json_loads(text, 0, NULL);
}

/* What an event rule exchanges is known only to the rule. */
static const char *exchanges(const struct codec_facts *f)
{
    if (!f->sends_grads && !f->sends_params)
        return "nothing";
    return f->has_events ? "rule-defined" : f->sends_grads ? "gradients" : "parameters";
}

bool codec_servers_send_params(const struct codec_facts *f, bool is_sync)
{
    const struct combine_path_rule rule = {.updates_on_server = f->updates_on_server,
                                           .combines_params = f->combines_params,
                                           .applies = f->applies,
                                           .adopts = f->adopts};

    return f->combines ? combine_path_servers_send_params(&rule, is_sync)
                       : f->compression == CODEC_LOSSY_PARAMS;
}

/* May servers' messages be compressed with loss? */
static bool may_lose_down(const struct codec_facts *f, bool is_sync)
{
    bool has_mode = !(f->limits & (is_sync ? CODEC_NO_SSGD : CODEC_NO_ASGD));

    return has_mode && codec_has_server_side(f) &&
           (f->compression == CODEC_LOSSY || codec_servers_send_params(f, is_sync));
}

static const char *compression_down(const struct codec_facts *f)
{
    bool has_ssgd = !(f->limits & CODEC_NO_SSGD);

    if (!codec_has_server_side(f) || f->compression == CODEC_UNCOMPRESSED)
        return "no";
    if (!may_lose_down(f, true) && !may_lose_down(f, false))
        return "lossless";
    return has_ssgd && !may_lose_down(f, true) ? "lossy in asgd" : "lossy";
}

/* The compression of workers' messages (up) and servers' messages (down). */
static const char *compression(const struct codec_facts *f)
{
    bool is_up = f->compression != CODEC_LOSSLESS_ONLY;
    bool is_down = may_lose_down(f, true) || may_lose_down(f, false);

    if (f->compression == CODEC_UNCOMPRESSED)
        return "no";
    return is_up ? (is_down ? "lossy" : "lossy up") : (is_down ? "lossy down" : "lossless");
}

json_t *codec_look_json(const struct codec_look *l)
{
    const struct codec_facts *f = &l->facts;
    bool has_ssgd = !(f->limits & CODEC_NO_SSGD);
    json_t *o;

    if (f->is_executor)
        return json_pack("{s:o, s:s, s:s}", "file", json_text(l->file.path, SIZE_MAX), "name", f->name,
                         "runs_by", codec_runs_by(f));
    o = json_pack(
        "{s:o, s:s, s:o?, s:o?, s:o?, s:o?, s:s, s:s, s:b, s:b, s:b, s:b, s:b, s:s, s:b, s:b, s:I, s:o, s:o}",
        "file", json_text(l->file.path, SIZE_MAX), "name", f->name, "source",
        f->source[0] ? json_text(f->source, SIZE_MAX) : NULL, "equation",
        f->equation[0] ? json_text(f->equation, SIZE_MAX) : NULL, "cost",
        f->cost[0] ? json_text(f->cost, SIZE_MAX) : NULL, "paths", f->combines ? costs_of_paths(f) : NULL,
        "runs_by", codec_runs_by(f), "exchanges", exchanges(f), "per_block", (int)f->per_block,
        "has_server_side", (int)codec_has_server_side(f), "has_ssgd", (int)has_ssgd, "has_asgd",
        (int)!(f->limits & CODEC_NO_ASGD), "updates_on_server", (int)f->updates_on_server, "compression",
        compression(f), "can_be_kept",
        (int)((has_ssgd || codec_has_server_side(f)) && !f->overlaps &&
              (!f->has_events || f->is_quiescent_between_steps)),
        "handles_node_loss", (int)(!(f->limits & CODEC_NO_ON_LOST) && !f->overlaps), "state_bytes",
        (json_int_t)f->state_size, "options", parsed(f->values), "parameters", parsed(f->list));
    json_object_set_new(o, "ends_equal", json_boolean(f->ends_equal));
    json_object_set_new(o, "compression_down", json_string(compression_down(f)));
    json_object_set_new(
        o, "needs_servers",
        json_boolean(f->updates_on_server || (!has_ssgd && (f->limits & CODEC_ASGD_NEEDS_SERVERS))));
    return o;
}
