#include "submit/access.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/file.h"
#include "shared/json.h"

enum { FILE_MAX = 4096 };

static const struct json_field fields[] = {
    {"pin", JSON_FIELD_TEXT, JSON_AT(struct access, pin), .required = true},
    {"token", JSON_FIELD_TEXT, JSON_AT(struct access, token), .required = true},
    {"address", JSON_FIELD_TEXT, JSON_AT(struct access, address), .required = true},
    {"agent", JSON_FIELD_TEXT, JSON_AT(struct access, agent), .required = true},
    {0}};

static int folder(char *out, size_t size, struct err *e)
{
    char state[PATH_MAX];

    return file_state_dir(state, sizeof state, e) < 0 ? e->code : file_join(out, size, state, "joined", e);
}

static int load(struct access *out, const char *path, struct err *e)
{
    struct stat st;
    json_t *doc;
    int rc;

    if (stat(path, &st) == 0 && (st.st_mode & 077)) {
        err_set(e, ERR_AUTH, "%s can be read by others (mode %03o)", path, (unsigned)st.st_mode & 0777);
        return err_hint(e, "Remove it and join the agent again: other users may have read its token.");
    }
    if (json_read(&doc, path, FILE_MAX, e) < 0)
        return e->code;
    *out = (struct access){0};
    rc = json_to_struct(out, doc, fields, "", e);
    json_decref(doc);
    if (rc == 0 && !is_base64url(out->pin))
        rc = err_set(e, ERR_CONFIG, "/pin: not 43 characters of base64url");
    return rc < 0 ? err_at(e, "%s", path) : 0;
}

/* Calls `take` for each file, until it returns other than 0. */
static int each(int (*take)(void *arg, const char *path, struct err *e), void *arg, struct err *e)
{
    char dir[PATH_MAX], path[PATH_MAX];
    const struct dirent *d;
    int rc = 0;
    DIR *at;

    if (folder(dir, sizeof dir, e) < 0)
        return e->code;
    at = opendir(dir);
    while (at && rc == 0 && (d = readdir(at)) != NULL) {
        size_t n = strlen(d->d_name);

        if (n == BASE64_TEXT - 1 + 5 && strcmp(d->d_name + n - 5, ".json") == 0 && d->d_name[0] != '.')
            rc = file_join(path, sizeof path, dir, d->d_name, e) < 0 ? e->code : take(arg, path, e);
    }
    if (at)
        closedir(at);
    return rc;
}

struct wanted {
    const char *address, *but_pin;
    struct access found;
};

static int match(void *arg, const char *path, struct err *e)
{
    struct wanted *w = arg;
    struct access a;

    if (load(&a, path, e) < 0)
        return e->code;
    if (strcmp(a.address, w->address) != 0 || (w->but_pin && strcmp(a.pin, w->but_pin) == 0))
        return 0;
    w->found = a;
    return 1;
}

int access_find(struct access *out, const char *address, struct err *e)
{
    struct wanted w = {.address = address};
    int rc = each(match, &w, e);

    if (rc == 1)
        *out = w.found;
    explicit_bzero(&w, sizeof w);
    return rc == 1 ? 0 : rc < 0 ? rc : err_set(e, ERR_NOT_FOUND, "no agent was joined at %s", address);
}

static int path_of(char *out, size_t size, const char *pin, struct err *e)
{
    char dir[PATH_MAX], name[BASE64_TEXT + 8];

    snprintf(name, sizeof name, "%s.json", pin);
    return folder(dir, sizeof dir, e) < 0 || file_mkdirs(dir, 0700, e) < 0
               ? e->code
               : file_join(out, size, dir, name, e);
}

int access_save(const struct access *a, struct err *e)
{
    struct wanted former = {.address = a->address, .but_pin = a->pin};
    json_t *doc = json_from_struct(a, fields);
    char *text = doc ? json_dumps(doc, JSON_INDENT(2)) : NULL;
    char path[PATH_MAX];
    int rc;

    json_decref(doc);
    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for what is known of %s", a->address);
    rc = path_of(path, sizeof path, a->pin, e) < 0 ? e->code : file_write(path, text, strlen(text), 0600, e);
    explicit_bzero(text, strlen(text));
    free(text);
    if (rc == 0 && each(match, &former, e) == 1 && path_of(path, sizeof path, former.found.pin, e) == 0)
        unlink(path);
    return rc;
}
