#include "submit/net/joined_agents.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/private.h"

enum { FILE_MAX = 4096 };

static const struct json_field fields[] = {
    {"pin", JSON_FIELD_TEXT, JSON_AT(struct access, pin), .required = true},
    {"token", JSON_FIELD_TEXT, JSON_AT(struct access, token), .required = true},
    {"address", JSON_FIELD_TEXT, JSON_AT(struct access, address), .required = true},
    {"agent", JSON_FIELD_TEXT, JSON_AT(struct access, agent), .required = true},
    {"joined_at", JSON_FIELD_DOUBLE, JSON_AT(struct access, joined_at), .max = 1e11},
    {0}};

static int folder(char *out, size_t size, struct err *e)
{
    char state[PATH_MAX];

    return file_state_dir(state, sizeof state, e) < 0 ? e->code : file_join(out, size, state, "joined", e);
}

static int path_of(char *out, size_t size, const char *address, struct err *e)
{
    char dir[PATH_MAX], name[BASE64_TEXT + 8];
    uint8_t digest[SHA256_BYTES];

    sha256(digest, address, strlen(address));
    base64url(name, digest);
    strcat(name, ".json");
    return folder(dir, sizeof dir, e) < 0 ? e->code : file_join(out, size, dir, name, e);
}

static int load(struct access *out, const char *path, struct err *e)
{
    char *text;
    size_t len;
    json_t *doc;
    int rc;

    if (private_read(&text, &len, path, FILE_MAX, e) < 0)
        return e->code != ERR_AUTH ? e->code
                                   : err_hint(e, "Remove it and join the agent again: other users may have "
                                                 "read its token.");
    rc = json_parse(&doc, text, len, path, e);
    secret_free(text);
    if (rc < 0)
        return rc;
    *out = (struct access){0};
    rc = json_to_struct(out, doc, fields, "", e);
    json_decref(doc);
    if (rc == 0 && !is_base64url(out->pin))
        rc = err_set(e, ERR_CONFIG, "/pin: not 43 characters of base64url");
    return rc < 0 ? err_at(e, "%s", path) : 0;
}

int access_find(struct access *out, const char *address, struct err *e)
{
    char path[PATH_MAX];

    if (path_of(path, sizeof path, address, e) < 0) /* without a home folder nothing was joined */
        return e->code = ERR_NOT_FOUND;
    return load(out, path, e);
}

int access_prepare(struct err *e)
{
    char dir[PATH_MAX];

    if (folder(dir, sizeof dir, e) < 0 || file_mkdirs(dir, 0700, e) < 0)
        return e->code;
    return access(dir, W_OK) < 0 ? err_errno(e, ERR_IO, "%s", dir) : 0;
}

int access_save(const struct access *a, struct err *e)
{
    json_t *doc = json_from_struct(a, fields);
    char *text = doc ? json_dump(doc, JSON_INDENT(2)) : NULL;
    char path[PATH_MAX];
    int rc;

    json_decref(doc);
    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for what is known of %s", a->address);
    rc = access_prepare(e) < 0 || path_of(path, sizeof path, a->address, e) < 0
             ? e->code
             : file_write(path, text, strlen(text), 0600, e);
    secret_free(text);
    return rc;
}

int access_remove(const char *address, struct err *e)
{
    char path[PATH_MAX];

    if (path_of(path, sizeof path, address, e) < 0)
        return e->code;
    if (unlink(path) == 0)
        return file_sync_name(path, e);
    return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "no agent was joined at %s", address)
                           : err_errno(e, ERR_IO, "%s", path);
}

static int by_address(const void *a, const void *b)
{
    const struct access *x = a, *y = b;

    return strcmp(x->address, y->address);
}

static int add_file(struct access_list *l, const char *dir, const char *name, struct err *e)
{
    struct access *more = reallocarray(l->items, l->n + 1, sizeof *more);
    char path[PATH_MAX];
    struct err why;

    if (!more)
        return err_set(e, ERR_NOMEM, "no memory for the agents in %s", dir);
    l->items = more;
    if (file_join(path, sizeof path, dir, name, &why) == 0 && load(&more[l->n], path, &why) == 0)
        l->n++;
    else if (!l->bad.code)
        l->bad = why;
    return 0;
}

int access_list_read(struct access_list *out, struct err *e)
{
    struct access_list l = {0};
    struct dirent *d;
    char dir[PATH_MAX];
    DIR *open_dir;
    int rc = 0;

    *out = l;
    if (folder(dir, sizeof dir, e) < 0) /* without a home folder nothing was joined */
        return 0;
    open_dir = opendir(dir);
    if (!open_dir)
        return errno == ENOENT ? 0 : err_errno(e, ERR_IO, "%s", dir);
    while (rc == 0 && (d = readdir(open_dir)) != NULL)
        if (d->d_name[0] != '.' && file_has_ending(d->d_name, ".json"))
            rc = add_file(&l, dir, d->d_name, e);
    closedir(open_dir);
    if (rc < 0) {
        access_list_clear(&l);
        return rc;
    }
    if (l.n > 0)
        qsort(l.items, l.n, sizeof *l.items, by_address);
    *out = l;
    return 0;
}

void access_list_clear(struct access_list *l)
{
    if (l->items)
        explicit_bzero(l->items, l->n * sizeof *l->items);
    free(l->items);
    *l = (struct access_list){0};
}
