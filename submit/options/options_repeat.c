/* The options of an earlier job, from its run.json. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/plugin/codec_options.h"
#include "submit/codecs/codec_find.h"
#include "submit/codecs/codec_same.h"
#include "submit/compat/codec_list.h"
#include "submit/options/measured_times.h"
#include "submit/options/options_config.h"
#include "submit/options/options_table.h"
#include "submit/terminal/console.h"

/* Finds the copy of a codec's source in the results. */
static bool find_copy(char out[PATH_MAX], const json_t *facts, const char *folder)
{
    const char *name = json_text_at(facts, "name");
    struct err ignored;
    char file[80];

    snprintf(file, sizeof file, "codec/%.64s.c", name);
    return name[0] && !strchr(name, '/') && file_join(out, PATH_MAX, folder, file, &ignored) == 0 &&
           codec_has_sum(out, json_text_at(facts, "source_sha256"));
}

/* Replaces a codec that has changed since, or is gone, by the copy of its source. */
static void choose_codec(json_t *texts, const char *option, const json_t *facts, const char *folder)
{
    const char *text = json_text_at(texts, option);
    size_t end = codec_options_at(text);
    char name[PATH_MAX], copy[PATH_MAX];

    snprintf(name, sizeof name, "%.*s", (int)end, text);
    if (!name[0] || codec_list_is_one(text) || !facts || codec_is_same(name, facts))
        return;
    if (find_copy(copy, facts, folder)) {
        console_info("%s is not what it was in that run: its source of then is used, %s.", name, copy);
        json_object_set_new(texts, option, json_sprintf("%s%s", copy, text + end));
    } else if (!find_is_path(name) || access(name, F_OK) == 0) { /* else it is reported as missing */
        console_info("%s is not what it was in that run, whose results have no copy of its source: the "
                     "present one is used.",
                     name);
    }
}

/* What the job chose by itself, from figures that may be others by now. */
static void keep_choices(json_t *texts, const json_t *settings)
{
    const char *path = json_text_at(settings, "path");

    if (strcmp(json_text_at(texts, "path"), "auto") == 0 && path[0] && strcmp(path, "auto") != 0)
        json_object_set(texts, "path", json_object_get(settings, "path"));
}

/* Times that were measured in that simulation take the place of new measurements. */
static json_t *simulation_of(const json_t *facts)
{
    const json_t *simulation = json_object_get(facts, "simulation");

    return measured_options(json_object_get(simulation, "options"), json_object_get(simulation, "result"));
}

static int take_simulation(struct options *o, const json_t *run, struct err *e)
{
    const json_t *settings = json_object_get(run, "settings");
    json_t *doc = simulation_of(json_object_get(run, "facts"));
    int rc = 0;

    o->servers = (int)json_integer_value(json_object_get(settings, "server_count"));
    if (doc)
        rc = simulation_parse(&o->simulation, doc, e);
    if (doc && rc == 0 && o->simulation.gradients > 0)
        o->steps = (int)json_integer_value(json_object_get(settings, "steps_per_epoch"));
    json_decref(doc);
    return rc < 0 ? err_at(e, "/facts/simulation/options") : 0;
}

int options_take_run(struct options *o, unsigned verb, const json_t *doc, const char *folder, bool is_changed,
                     struct err *e)
{
    const json_t *facts = json_object_get(doc, "facts");
    json_t *texts = json_copy(json_object_get(facts, "options"));
    bool is_simulation = json_object_get(facts, "simulation");
    int rc;

    if (!json_is_object(texts)) {
        json_decref(texts);
        return err_set(e, ERR_CONFIG, "/facts/options: missing");
    }
    choose_codec(texts, "codec", json_object_get(facts, "codec"), folder);
    choose_codec(texts, "server_codec", json_object_get(facts, "server_codec"), folder);
    if (!is_changed)
        keep_choices(texts, json_object_get(doc, "settings"));
    if (is_simulation) /* it had no agents */
        json_object_del(texts, "workers");
    rc = options_take_texts(o, verb, texts, e);
    if (rc == 0 && (verb & FOR_SIMULATE))
        rc = take_simulation(o, doc, e);
    json_decref(texts);
    return rc;
}
