#include "submit/sweep/sweep_inputs.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "submit/codecs/codec_same.h"

/* Has the file of this part of the facts other bytes now? A codec's is its source, or its object. */
static bool is_other(char file[PATH_MAX], const json_t *facts, const char *part)
{
    const json_t *o = json_object_get(facts, part);

    snprintf(file, PATH_MAX, "%s", json_text_at(o, "file"));
    if (!file[0] || access(file, F_OK) < 0)
        return false;
    return !codec_has_sum(file, json_text_at(o, "sha256")) &&
           !codec_has_sum(file, json_text_at(o, "source_sha256"));
}

static bool is_newer(const char *path, double then)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec / 1e9 > then;
}

/* The same of a file, or of one in a folder. */
static bool has_newer(char file[PATH_MAX], const char *path, double then)
{
    const struct dirent *entry;
    bool is = false;
    DIR *d;

    snprintf(file, PATH_MAX, "%s", path);
    if (is_newer(path, then))
        return true;
    d = opendir(path);
    while (d && !is && (entry = readdir(d)) != NULL)
        is = snprintf(file, PATH_MAX, "%s/%s", path, entry->d_name) < PATH_MAX && is_newer(file, then);
    if (d)
        closedir(d);
    return is;
}

bool sweep_inputs_changed(char file[PATH_MAX], const json_t *run, const char *config)
{
    const json_t *facts = json_object_get(run, "facts");
    const char *data = json_text_at(json_object_get(facts, "options"), "data");
    double then;

    if (is_other(file, facts, "codec") || is_other(file, facts, "server_codec") ||
        is_other(file, facts, "model") || is_other(file, facts, "start"))
        return true;
    return clock_parse(&then, json_text_at(run, "submitted_at")) &&
           ((data[0] && has_newer(file, data, then)) || (config[0] && has_newer(file, config, then)));
}
