#include "agent/jobs/tombstones.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"

enum { DOCUMENT_MAX = 1 << 20 };

#define TEXT(member)                                                                                         \
    .key = #member, .kind = JSON_FIELD_TEXT, JSON_AT(struct forgotten, member), .required = true

static const struct json_field fields[] = {{TEXT(id)}, {TEXT(key_sha256)}, {TEXT(at)}, {TEXT(why)}, {0}};

static int list_path(char out[PATH_MAX], const char *dir, struct err *e)
{
    return file_join(out, PATH_MAX, dir, "forgotten.json", e);
}

/* Room for one more: the oldest goes. */
static struct forgotten *next(struct forgotten_list *l)
{
    if (l->n == FORGOTTEN_MAX)
        memmove(l->items, l->items + 1, --l->n * sizeof *l->items);
    return &l->items[l->n];
}

static int take(struct forgotten_list *l, const json_t *list, struct err *e)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        if (json_to_struct(next(l), one, fields, "", e) < 0)
            return e->code;
        l->n++;
    }
    return 0;
}

int forgotten_load(struct forgotten_list *l, const char *dir, struct err *e)
{
    char path[PATH_MAX];
    json_t *list;
    int rc;

    l->n = 0;
    l->items = calloc(FORGOTTEN_MAX, sizeof *l->items);
    if (!l->items)
        return err_set(e, ERR_NOMEM, "no memory for the list of removed jobs");
    if (list_path(path, dir, e) < 0)
        return e->code;
    if (json_read(&list, path, DOCUMENT_MAX, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : e->code;
    rc = take(l, list, e);
    json_decref(list);
    return rc < 0 ? err_at(e, "%s", path) : 0;
}

void forgotten_clear(struct forgotten_list *l)
{
    free(l->items);
    *l = (struct forgotten_list){0};
}

static char *document(const struct forgotten_list *l)
{
    json_t *list = json_array();
    char *text = NULL;
    bool is_whole = list != NULL;

    for (size_t i = 0; i < l->n && is_whole; i++)
        is_whole = json_array_append_new(list, json_from_struct(&l->items[i], fields)) == 0;
    if (is_whole)
        text = json_dump(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

static int save(const struct forgotten_list *l, const char *dir, struct err *e)
{
    char path[PATH_MAX];
    char *text = document(l);
    int rc;

    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for the list of removed jobs");
    rc = list_path(path, dir, e) < 0 ? e->code : file_write(path, text, strlen(text), 0600, e);
    free(text);
    return rc;
}

static struct forgotten *find(const struct forgotten_list *l, const char *id)
{
    for (size_t i = l->n; i > 0; i--)
        if (strcmp(l->items[i - 1].id, id) == 0)
            return &l->items[i - 1];
    return NULL;
}

int forgotten_add(struct forgotten_list *l, const char *dir, const struct job_spec *job,
                  const char *key_sha256, const char *why, struct err *e)
{
    struct forgotten *new = find(l, job->id);

    if (!new) {
        new = next(l);
        l->n++;
    }
    *new = (struct forgotten){0};
    memcpy(new->id, job->id, sizeof new->id);
    memcpy(new->key_sha256, key_sha256, sizeof new->key_sha256);
    clock_text(new->at, clock_wall());
    snprintf(new->why, sizeof new->why, "%s", why);
    return save(l, dir, e);
}

const struct forgotten *forgotten_find(const struct forgotten_list *l, const char *id)
{
    return find(l, id);
}
