#include "submit/options/measured_times.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"

enum { FILE_MAX = 16 << 20 };

static const char *const times[] = {"step_time", "eval_time_s", "codec_rate_mbps", "overhead"};
enum { N_TIMES = sizeof times / sizeof *times };

json_t *measured_options(const json_t *options, const json_t *result)
{
    json_t *doc = json_deep_copy(options);

    for (size_t i = 0; doc && i < N_TIMES; i++) {
        const json_t *v = json_object_get(doc, times[i]);
        json_t *then = json_object_get(result, times[i]);
        bool is_open = json_is_string(v) ? json_string_length(v) == 0 : json_number_value(v) == 0;
        bool is_known = json_is_string(then) ? json_string_length(then) > 0 : json_number_value(then) > 0;

        if (v && is_open && is_known && json_typeof(v) == json_typeof(then))
            json_object_set(doc, times[i], then);
    }
    return doc;
}

/* [{"of": {...}, "measured": {"step_time": "0.001,...", ...}}, ...] */
static int read_list(json_t **out, const char *file, struct err *e)
{
    if (access(file, F_OK) < 0) {
        *out = json_array();
        return *out ? 0 : err_set(e, ERR_NOMEM, "no memory");
    }
    if (json_read(out, file, FILE_MAX, e) < 0)
        return e->code;
    if (json_is_array(*out))
        return 0;
    json_decref(*out);
    return err_set(e, ERR_CONFIG, "%s: it has no list of measured times", file);
}

static const json_t *find_times(const json_t *list, const json_t *of)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_equal(json_object_get(json_array_get(list, i), "of"), of))
            return json_object_get(json_array_get(list, i), "measured");
    return NULL;
}

/* The times of a message and of the codec, which do not depend on the data or on the optimizer, from an entry
 * of a job with the same vectors, nodes and processors. The caller owns them. NULL: there are none. */
static json_t *links_of(const json_t *list, const json_t *of)
{
    static const char *const same[] = {"model_sha256", "node_count",  "processors",
                                       "threads",      "block_ratio", "processors_here"};
    static const char *const links[] = {"codec_rate_mbps", "overhead"};

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *then = json_array_get(list, i), *of_then = json_object_get(then, "of");
        bool is_same = true;
        json_t *found;

        for (size_t k = 0; k < sizeof same / sizeof *same && is_same; k++)
            is_same = json_equal(json_object_get(of, same[k]), json_object_get(of_then, same[k]));
        if (!is_same)
            continue;
        found = json_object();
        for (size_t k = 0; k < sizeof links / sizeof *links; k++)
            json_object_set(found, links[k], json_object_get(json_object_get(then, "measured"), links[k]));
        return found;
    }
    return NULL;
}

int measured_take(struct simulation *how, const char *file, const json_t *of, struct err *e)
{
    json_t *list, *options, *doc, *found;
    const json_t *times_of;
    int rc = 0;

    if (read_list(&list, file, e) < 0)
        return e->code;
    times_of = find_times(list, of);
    found = times_of ? json_deep_copy(times_of) : links_of(list, of);
    if (found) {
        options = simulation_json(how);
        doc = options ? measured_options(options, found) : NULL;
        rc = doc ? simulation_parse(how, doc, e) : err_set(e, ERR_NOMEM, "no memory");
        json_decref(doc);
        json_decref(options);
    }
    json_decref(found);
    json_decref(list);
    return rc < 0 ? err_at(e, "%s", file) : 0;
}

static int write_list(const char *file, const json_t *list, struct err *e)
{
    char *text = json_dump_line(list, JSON_INDENT(1));
    int rc = text ? file_write(file, text, strlen(text), 0644, e) : err_set(e, ERR_NOMEM, "no memory");

    free(text);
    return rc;
}

int measured_keep(const char *file, const json_t *of, const json_t *result, struct err *e)
{
    json_t *list, *entry;
    int rc = 0;

    if (read_list(&list, file, e) < 0)
        return e->code;
    if (!find_times(list, of)) {
        json_t *measured = json_object();

        for (size_t i = 0; i < N_TIMES; i++)
            json_object_set(measured, times[i], json_object_get(result, times[i]));
        entry = json_pack("{s:O, s:o}", "of", of, "measured", measured);
        rc = json_array_append_new(list, entry) == 0 ? write_list(file, list, e)
                                                     : err_set(e, ERR_NOMEM, "no memory");
    }
    json_decref(list);
    return rc;
}
