#include "agent/api/etag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"

enum { TAG_BYTES = 8 }; /* of the digest */

bool etag_is_in(const char *if_none_match, const char *etag)
{
    const char *p = if_none_match, *opaque = strchr(etag, '"');
    size_t n = opaque ? strlen(opaque) : 0;

    if (!p || n == 0)
        return false;
    for (;;) {
        p += strspn(p, " \t,");
        if (strncmp(p, "W/", 2) == 0)
            p += 2;
        if (*p == '*' || strncmp(p, opaque, n) == 0)
            return true;
        /* Skips this tag, which may contain a comma. */
        p += *p == '"' ? 1 + strcspn(p + 1, "\"") : strcspn(p, ",");
        if (!*p)
            return false;
        p++;
    }
}

void etag_make(char out[ETAG_TEXT], const void *bytes, size_t len)
{
    uint8_t digest[SHA256_BYTES];
    char hex[2 * TAG_BYTES + 1];

    sha256(digest, bytes, len);
    hex_encode(hex, digest, TAG_BYTES);
    snprintf(out, ETAG_TEXT, "W/\"%s\"", hex);
}

/* A 304 has no body, but states its length as the 200 would (RFC 9110 8.6). */
void etag_unchanged(struct api_response *rs, const char etag[ETAG_TEXT], uint64_t bytes)
{
    response_clear(rs);
    *rs = (struct api_response){.status = 304, .kind = RESPONSE_FILE, .fd = -1, .bytes = bytes};
    memcpy(rs->etag, etag, ETAG_TEXT);
}

static void tag_response(const struct request *rq, struct api_response *rs, const void *bytes, size_t len)
{
    etag_make(rs->etag, bytes, len);
    if (etag_is_in(rq->if_none_match, rs->etag)) {
        char etag[ETAG_TEXT];

        memcpy(etag, rs->etag, sizeof etag);
        etag_unchanged(rs, etag, rs->kind == RESPONSE_FILE ? rs->bytes : rs->len);
    }
}

void etag_by_body(const struct request *rq, struct api_response *rs)
{
    if (rs->kind == RESPONSE_BYTES && rs->body && (rs->status == 0 || rs->status == 200))
        tag_response(rq, rs, rs->body, rs->len);
}

void etag_by_file(const struct request *rq, struct api_response *rs, const struct stat *st)
{
    char text[160];
    int n = snprintf(text, sizeof text, "%llu %llu %lld.%09ld %llu %llu", (unsigned long long)st->st_dev,
                     (unsigned long long)st->st_ino, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
                     (unsigned long long)rs->after, (unsigned long long)rs->bytes);

    tag_response(rq, rs, text, (size_t)n);
}

/* Sets elapsed_s of each job, without moving the key: to 0, or with `to` back to those values. */
static void set_clocks(json_t *doc, const json_t *to)
{
    json_t *jobs = json_object_get(doc, "jobs");
    size_t n = jobs ? json_array_size(jobs) : 1;

    for (size_t i = 0; i < n; i++)
        json_object_set_new(jobs ? json_array_get(jobs, i) : doc, "elapsed_s",
                            to ? json_incref(json_array_get(to, i)) : json_integer(0));
}

static json_t *clocks_of(const json_t *doc)
{
    const json_t *jobs = json_object_get(doc, "jobs");
    size_t n = jobs ? json_array_size(jobs) : 1;
    json_t *clocks = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append(clocks, json_object_get(jobs ? json_array_get(jobs, i) : doc, "elapsed_s"));
    return clocks;
}

void respond_jobs(const struct request *rq, struct api_response *rs, json_t *take)
{
    json_t *clocks = clocks_of(take);
    char *still;

    set_clocks(take, NULL);
    still = json_dump(take, JSON_COMPACT);
    set_clocks(take, clocks);
    json_decref(clocks);
    if (!still) {
        json_decref(take);
        respond_problem(rs, OVERLOADED, NULL, "no memory for the response");
        return;
    }
    respond_json(rs, 200, take);
    if (rs->status == 200)
        tag_response(rq, rs, still, strlen(still));
    free(still);
}

void static_document_set(struct static_document *d, char *take, size_t len)
{
    static_document_clear(d);
    d->text = take;
    d->len = len;
    etag_make(d->etag, take, len);
}

void static_document_clear(struct static_document *d)
{
    free(d->text);
    *d = (struct static_document){0};
}

void respond_static(const struct request *rq, struct api_response *rs, const struct static_document *d,
                    const char *type)
{
    if (etag_is_in(rq->if_none_match, d->etag)) {
        etag_unchanged(rs, d->etag, d->len);
        return;
    }
    *rs = (struct api_response){.type = type, .static_body = d->text, .len = d->len};
    memcpy(rs->etag, d->etag, sizeof d->etag);
}
