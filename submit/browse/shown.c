#include "submit/browse/shown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/json.h"
#include "submit/files/run_file.h"
#include "submit/files/untrusted_folder.h"

int shown_open(struct shown *s, const char *path, struct err *e)
{
    *s = (struct shown){.dir = -1, .path = strdup(path)};
    if (!s->path)
        return err_set(e, ERR_NOMEM, "no memory for %s", path);
    if (folder_open(&s->dir, path, e) < 0)
        return e->code;
    if (folder_json(&s->run, s->dir, "run.json", RUN_JSON_MAX, e) < 0)
        return err_at(e, "%s", path);
    return json_is_object(s->run) ? 0 : err_set(e, ERR_CONFIG, "%s/run.json is no object", path);
}

void shown_clear(struct shown *s)
{
    json_decref(s->run);
    free(s->path);
    if (s->dir >= 0)
        close(s->dir);
    *s = (struct shown){.dir = -1};
}

void shown_node_folder(char out[SHOWN_FOLDER], int node, int attempt)
{
    snprintf(out, SHOWN_FOLDER, "%d/%d", attempt, node);
}

void shown_live_folder(char out[SHOWN_FOLDER], const json_t *node)
{
    shown_node_folder(out, (int)json_number_at(node, "node", 0), (int)json_number_at(node, "attempt", 1));
}

static int take_one(const struct shown *s, const char *path, int node,
                    int (*take)(void *ctx, int fd, int node, struct err *e), void *ctx, struct err *e)
{
    uint64_t bytes;
    int fd;
    int rc;

    if (folder_file(&fd, &bytes, s->dir, path, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : e->code;
    rc = take(ctx, fd, node, e);
    close(fd);
    return rc;
}

int shown_each(const struct shown *s, const char *path,
               int (*take)(void *ctx, int fd, int node, struct err *e), void *ctx, struct err *e)
{
    const json_t *nodes = json_object_get(s->run, "nodes"), *o;
    char folder[SHOWN_FOLDER];
    char name[128];
    size_t i;

    if (s->dir < 0)
        return 0;
    if (!s->is_live)
        return take_one(s, path, SHOWN_ALL, take, ctx, e);
    json_array_foreach(nodes, i, o)
    {
        shown_live_folder(folder, o);
        snprintf(name, sizeof name, "%s/%s", folder, path);
        if (take_one(s, name, (int)json_number_at(o, "node", 0), take, ctx, e) < 0)
            return e->code;
    }
    return 0;
}

const char *shown_text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}
