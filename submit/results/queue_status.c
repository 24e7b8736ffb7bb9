#include "submit/results/queue_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/results/queue_folder.h"

#define STATUS_FILE "status.json"

int queue_status_write(const json_t *o, struct err *e)
{
    char *text = json_line(o);
    char path[PATH_MAX];
    struct iovec part = {.iov_base = text, .iov_len = text ? strlen(text) : 0};
    int rc;

    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for the state of the queue");
    rc = queue_folder_path(path, NULL, STATUS_FILE, e);
    if (rc == 0)
        rc = file_write_parts(path, &part, 1, 0600, false, e);
    free(text);
    return rc;
}

int queue_state_read(struct queue_state *s, struct err *e)
{
    char path[PATH_MAX];
    struct err ignored;

    *s = (struct queue_state){.watcher = queue_folder_watcher()};
    if (queue_folder_path(path, NULL, STATUS_FILE, e) < 0 || queue_folder_list(&s->jobs, &s->n, e) < 0)
        return e->code;
    if (json_read(&s->said, path, QUEUE_DOCUMENT_MAX, &ignored) < 0)
        s->said = NULL;
    return 0;
}

void queue_state_clear(struct queue_state *s)
{
    json_decref(s->said);
    free(s->jobs);
    *s = (struct queue_state){0};
}

static const json_t *find_said(size_t *at, const struct queue_state *s, const char *id)
{
    const json_t *list = json_object_get(s->said, "waiting");

    for (*at = 0; *at < json_array_size(list); ++*at)
        if (strcmp(json_text_at(json_array_get(list, *at), "id"), id) == 0)
            return json_array_get(list, *at);
    return NULL;
}

void queue_state_view(struct queue_view *out, const struct queue_state *s, const char *id)
{
    const json_t *said;
    size_t at;

    *out = (struct queue_view){.n_waiting = queue_state_count(s)};
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->jobs[i].id, id) != 0)
            continue;
        out->place = i + 1; /* until the watcher says which jobs before it run */
        out->priority = s->jobs[i].place.priority;
    }
    said = find_said(&at, s, id);
    if (!out->place || !said)
        return;
    out->place = at + 1;
    snprintf(out->why, sizeof out->why, "%s", json_text_at(said, "why"));
}

bool queue_state_has(const struct queue_state *s, const char *id)
{
    size_t at;

    return find_said(&at, s, id) != NULL;
}

size_t queue_state_count(const struct queue_state *s)
{
    size_t n = json_array_size(json_object_get(s->said, "waiting"));

    return n > 0 && n <= s->n ? n : s->n;
}

bool queue_state_waits(const struct submission *s)
{
    return s->is_queued && queue_folder_has(s->id);
}

int queue_state_refuse(const struct submission *s, struct err *e)
{
    struct queue_state state = {0};
    struct queue_view v;
    int rc;

    if (!queue_state_waits(s))
        return 0;
    rc = queue_state_read(&state, e);
    if (rc == 0) {
        queue_state_view(&v, &state, s->id);
        err_set(e, ERR_CONFLICT, "%s waits in the queue, place %zu of %zu, and has not been started", s->id,
                v.place, v.n_waiting);
        rc = err_hint(e, "job_submit wait %s waits for it.", s->id);
    }
    queue_state_clear(&state);
    return rc;
}
