#include "submit/results/event_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"

struct event_line {
    char at[40];  /* RFC 3339, which sorts as text */
    size_t order; /* arrival order, for equal times */
    char *text;
};

static bool make_room(struct event_log *l)
{
    size_t room = 2 * l->room + 256;
    struct event_line *bigger;

    if (l->bytes > (l->max ? l->max : EVENT_LOG_MAX))
        return false;
    if (l->n < l->room)
        return true;
    bigger = realloc(l->lines, room * sizeof *bigger);
    if (!bigger)
        return false;
    l->lines = bigger;
    l->room = room;
    return true;
}

static void add_line(struct event_log *l, int node, const json_t *event)
{
    struct event_line *line = &l->lines[l->n];
    const char *at = json_string_value(json_object_get(event, "at"));
    json_t *all = json_pack("{s:i}", "node", node); /* added first, so that it is printed first */

    if (all && json_object_update_missing(all, (json_t *)(uintptr_t)event) == 0) {
        snprintf(line->at, sizeof line->at, "%s", at ? at : "");
        line->order = l->n;
        line->text = json_line(all);
        if (line->text) {
            l->bytes += sizeof *line + strlen(line->text);
            l->n++;
        }
    }
    json_decref(all);
}

bool event_log_add(struct event_log *l, int node, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at : len - at;
        struct err ignored;
        json_t *event;

        if (!make_room(l))
            return false;
        if (json_parse(&event, text + at, n, "event", &ignored) == 0) {
            if (json_is_object(event))
                add_line(l, node, event);
            json_decref(event);
        }
        at += n + 1;
    }
    return true;
}

static int by_time(const void *a, const void *b)
{
    const struct event_line *x = a;
    const struct event_line *y = b;
    int d = strcmp(x->at, y->at);

    return d ? d : (x->order > y->order) - (x->order < y->order);
}

int event_log_write(struct event_log *l, int fd, const char *path, struct err *e)
{
    if (l->n > 0)
        qsort(l->lines, l->n, sizeof *l->lines, by_time);
    for (size_t i = 0; i < l->n; i++)
        if (file_write_all(fd, l->lines[i].text, strlen(l->lines[i].text), path, e) < 0)
            return e->code;
    return 0;
}

void event_log_clear(struct event_log *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->lines[i].text);
    free(l->lines);
    *l = (struct event_log){0};
}
