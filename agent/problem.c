#include "agent/problem.h"

#include "shared/json.h"

static const struct {
    int status;
    const char *code, *title;
} table[N_PROBLEMS] = {
    [PROBLEM_NONE] = {200, "NONE", "No problem"},
    [BAD_REQUEST] = {400, "BAD_REQUEST", "Bad request"},
    [UNAUTHORIZED] = {401, "UNAUTHORIZED", "Token missing or wrong"},
    [FORBIDDEN] = {403, "FORBIDDEN", "Forbidden"},
    [NOT_FOUND] = {404, "NOT_FOUND", "Not found"},
    [METHOD_NOT_ALLOWED] = {405, "METHOD_NOT_ALLOWED", "Method not allowed"},
    [CONFLICT] = {409, "CONFLICT", "Conflict"},
    [AGENT_BUSY] = {409, "AGENT_BUSY", "Agent is busy"},
    [JOB_EXISTS] = {409, "JOB_EXISTS", "Job exists"},
    [WRONG_STATE] = {409, "WRONG_STATE", "Not in this state"},
    [TIMED_OUT] = {504, "TIMED_OUT", "Not in time"},
    [GONE] = {410, "GONE", "Gone"},
    [LENGTH_REQUIRED] = {411, "LENGTH_REQUIRED", "Length required"},
    [TOO_LARGE] = {413, "TOO_LARGE", "Too large"},
    [UNSUPPORTED_MEDIA_TYPE] = {415, "UNSUPPORTED_MEDIA_TYPE", "Unsupported media type"},
    [INVALID_DOCUMENT] = {422, "INVALID_DOCUMENT", "Invalid document"},
    [DIGEST_MISMATCH] = {422, "DIGEST_MISMATCH", "Digest mismatch"},
    [TOO_MANY_REQUESTS] = {429, "TOO_MANY_REQUESTS", "Queue is full"},
    [SLOWED_DOWN] = {429, "SLOWED_DOWN", "Too many failures"},
    [INTERNAL] = {500, "INTERNAL", "Internal error"},
    [DRAINING] = {503, "DRAINING", "Agent takes no jobs"},
    [OVERLOADED] = {503, "OVERLOADED", "Too much at once"},
    [DISK_FULL] = {507, "DISK_FULL", "Disk is full"},
    [CODEC_REFUSED] = {403, "CODEC_REFUSED", "Codec is refused"},
    [ISOLATION_TOO_LOW] = {403, "ISOLATION_TOO_LOW", "Isolation is too low"},
};

int problem_status(enum problem p)
{
    return table[p].status;
}

const char *problem_code(enum problem p)
{
    return table[p].code;
}

enum problem problem_of(const struct err *e)
{
    static const struct {
        int err;
        enum problem problem;
    } map[] = {
        {ERR_CONFIG, INVALID_DOCUMENT}, {ERR_NOSPACE, DISK_FULL},         {ERR_NOT_FOUND, NOT_FOUND},
        {ERR_CONFLICT, WRONG_STATE},    {ERR_REFUSED, ISOLATION_TOO_LOW}, {ERR_CODEC, CODEC_REFUSED},
        {ERR_AUTH, UNAUTHORIZED},       {ERR_NOMEM, OVERLOADED},
    };

    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++)
        if (map[i].err == e->code)
            return map[i].problem;
    return INTERNAL;
}

char *problem_document(enum problem p, const char *detail, const char *hint, const char *error_id)
{
    json_t *o = json_object();
    char *text;

    json_object_set_new(o, "type", json_sprintf("/problems/%s", table[p].code));
    json_object_set_new(o, "title", json_string(table[p].title));
    json_object_set_new(o, "status", json_integer(table[p].status));
    json_object_set_new(o, "code", json_string(table[p].code));
    /* detail and hint may quote bytes of a request. */
    json_object_set_new(o, "detail", json_text(detail, SIZE_MAX));
    if (hint && hint[0])
        json_object_set_new(o, "hint", json_text(hint, SIZE_MAX));
    json_object_set_new(o, "error_id", json_string(error_id));
    text = json_dump(o, JSON_COMPACT);
    json_decref(o);
    return text;
}
