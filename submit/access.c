#include "submit/access.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/file.h"
#include "shared/json.h"
#include "shared/private.h"

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
