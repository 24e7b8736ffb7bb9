#include "agent/api/problem.h"

#include <string.h>

#include "shared/base/json.h"

static const struct {
    int status;
    const char *code, *title, *meaning, *advice;
} table[N_PROBLEMS] = {
    [PROBLEM_NONE] = {200, "NONE", "No problem", "", ""},
    [BAD_REQUEST] = {400, "BAD_REQUEST", "Bad request",
                     "The head, the query or the JSON of the request is malformed.",
                     "Correct what `detail` names; /openapi.json describes every request."},
    [UNAUTHORIZED] =
        {401, "UNAUTHORIZED", "Token missing or wrong",
         "The request shows no token that this agent knows, nor a certificate or code that it accepts.",
         "Send Authorization: Bearer TOKEN. On the agent's machine the token is in the file that its log "
         "names; a new client gets one with job_submit join."},
    [FORBIDDEN] = {403, "FORBIDDEN", "Forbidden",
                   "The token has a lower scope than this route needs, or the request comes from another web "
                   "site, or it names another host.",
                   "For a higher scope: agent token add NAME --scope SCOPE, on the agent's machine. For "
                   "another host name: start the agent with --allow-host NAME."},
    [NOT_FOUND] =
        {404, "NOT_FOUND", "Not found",
         "No resource has this path, or the job is unknown to this agent, or it belongs to another client.",
         "Compare the path with /openapi.json, and the id with job_submit list. With scope submit, "
         "send the job's X-Job-Key."},
    [METHOD_NOT_ALLOWED] = {405, "METHOD_NOT_ALLOWED", "Method not allowed",
                            "The path exists, and does not take this method.",
                            "Use a method that the header Allow names."},
    [CONFLICT] = {409, "CONFLICT", "Conflict",
                  "The request contradicts the present state of the job, such as its attempt.",
                  "Get the job again and compare it with the request."},
    [AGENT_BUSY] = {409, "AGENT_BUSY", "Agent is busy",
                    "Another job has the agent's slot, and this reservation does not wait (--no-queue).",
                    "Omit --no-queue to wait, or use other agents."},
    [JOB_EXISTS] = {409, "JOB_EXISTS", "Job exists",
                    "The agent has a job of this id, with other contents or a later attempt.",
                    "Choose another id, or a higher attempt for the same job."},
    [WRONG_STATE] = {409, "WRONG_STATE", "Not in this state",
                     "The job, or the agent, is in a state in which this cannot be done.",
                     "Wait for the state that `detail` names, or cancel the job first."},
    [TIMED_OUT] = {504, "TIMED_OUT", "Not in time", "The node has not answered within timeout_s.",
                   "Ask again with a longer timeout_s; the job's status says what the node does."},
    [GONE] = {410, "GONE", "Gone",
              "The job was removed: by a client, or because the agent keeps a limited number of ended jobs.",
              "Clients that have fetched its results still have them. To keep more jobs: agent --keep, "
              "--keep-days, --keep-gib."},
    [LENGTH_REQUIRED] = {411, "LENGTH_REQUIRED", "Length required",
                         "A request with a body needs the number of its bytes in advance.",
                         "Send a Content-Length instead of chunks."},
    [TOO_LARGE] = {413, "TOO_LARGE", "Too large",
                   "The body, or the number of the job's nodes, exceeds a limit of the agent.",
                   "`detail` names the limit and `hint` what raises it, where it can be raised."},
    [UNSUPPORTED_MEDIA_TYPE] = {415, "UNSUPPORTED_MEDIA_TYPE", "Unsupported media type",
                                "The body's Content-Type is not one that the agent reads.",
                                "Send application/json, or application/octet-stream for blobs."},
    [INVALID_DOCUMENT] = {422, "INVALID_DOCUMENT", "Invalid document",
                          "The body is JSON, but not what this route takes.",
                          "`detail` begins with the path inside the document; correct the value there."},
    [DIGEST_MISMATCH] = {422, "DIGEST_MISMATCH", "Digest mismatch",
                         "The uploaded bytes do not have the SHA-256 in their path: they were changed on the "
                         "way, or while they were sent.",
                         "Compute the digest again and send the blob again."},
    [TOO_MANY_REQUESTS] =
        {429, "TOO_MANY_REQUESTS", "Queue is full", "The agent's queue has as many jobs as it may have.",
         "Try again after Retry-After seconds, use other agents, or start this one with a larger --queue."},
    [SLOWED_DOWN] = {429, "SLOWED_DOWN", "Too many failures",
                     "Too many wrong tokens or codes came from this address.",
                     "Wait Retry-After seconds; the right token is accepted meanwhile."},
    [INTERNAL] = {500, "INTERNAL", "Internal error", "The agent failed where it should not fail.",
                  "Look for `error_id` in the agent's log, and report both."},
    [DRAINING] = {503, "DRAINING", "Agent takes no jobs", "The agent was drained, or is about to stop.",
                  "Use other agents, or let it take jobs again: job_submit agents resume ADDRESS."},
    [OVERLOADED] = {503, "OVERLOADED", "Too much at once",
                    "Memory, or the number of requests in work, is at its limit.",
                    "Try again after Retry-After seconds."},
    [DISK_FULL] = {507, "DISK_FULL", "Disk is full",
                   "The agent's disk has no room for this beside what it reserves for running jobs.",
                   "Free space on that disk, remove ended jobs (job_submit rm), or lower --blob-limit."},
    [CODEC_REFUSED] = {403, "CODEC_REFUSED", "Codec is refused", "The agent does not run this codec.",
                       "Add its SHA-256 to the list that `hint` names, or use a codec of the agent's own."},
    [ISOLATION_TOO_LOW] = {403, "ISOLATION_TOO_LOW", "Isolation is too low",
                           "The agent's machine cannot confine a codec as the job or the agent requires.",
                           "`detail` names what the kernel lacks. Use another machine, or a lower "
                           "--require-isolation where the codec is trusted."},
    [TRAINER_REFUSED] =
        {403, "TRAINER_REFUSED", "Training program is refused",
         "The agent runs no training programs of its clients, or not this one: they may do more there than a "
         "codec.",
         "Add the SHA-256 of its package to the list that `hint` names, or start the agent with --trainers "
         "allowlist or any."},
};

int problem_status(enum problem p)
{
    return table[p].status;
}

const char *problem_code(enum problem p)
{
    return table[p].code;
}

const char *problem_title(enum problem p)
{
    return table[p].title;
}

const char *problem_meaning(enum problem p)
{
    return table[p].meaning;
}

const char *problem_advice(enum problem p)
{
    return table[p].advice;
}

enum problem problem_find(const char *code)
{
    enum problem p = N_PROBLEMS - 1;

    while (p > PROBLEM_NONE && strcmp(table[p].code, code) != 0)
        p--;
    return p;
}

enum problem problem_of(const struct err *e)
{
    static const struct {
        int err;
        enum problem problem;
    } map[] = {
        {ERR_CONFIG, INVALID_DOCUMENT}, {ERR_NOSPACE, DISK_FULL},         {ERR_NOT_FOUND, NOT_FOUND},
        {ERR_CONFLICT, WRONG_STATE},    {ERR_REFUSED, ISOLATION_TOO_LOW}, {ERR_CODEC, CODEC_REFUSED},
        {ERR_TRAINER, TRAINER_REFUSED}, {ERR_AUTH, UNAUTHORIZED},         {ERR_NOMEM, OVERLOADED},
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
