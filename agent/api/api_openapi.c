/* GET /openapi.json: the routes of api.h as an OpenAPI 3.1 document. Its schemas are in openapi.json beside
 * this file, which is embedded in the agent; states, problems and the version come from the tables of the
 * program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/api/agent_state.h"
#include "agent/api/api.h"
#include "shared/base/json.h"
#include "shared/job/job_state.h"

#define PROBLEM "application/problem+json"

/* openapi.json, as the assembler includes it. */
__asm__(".pushsection .rodata\n"
        "openapi_bytes:\n"
        ".incbin \"agent/api/openapi.json\"\n"
        "openapi_bytes_end:\n"
        ".byte 0\n"
        ".popsection\n");
extern const char openapi_bytes[], openapi_bytes_end[];

/* Bodies without a schema in openapi.json. other_type NULL: there is no second form. */
static const struct {
    const char *name, *type, *other_type;
} bodies[] = {
    {"Text", "text/plain", NULL},
    {"Html", "text/html", NULL},
    {"Page", "text/html", "text/plain"},
    {"Prometheus", "text/plain", NULL},
    {"Csv", "text/csv", NULL},
    {"Events", "text/event-stream", "application/x-ndjson"},
    {"Bytes", "*/*", NULL},
};

static json_t *component_list(json_t *doc, const char *list)
{
    return json_object_get(json_object_get(doc, "components"), list);
}

static json_t *reference(json_t *doc, const char *list, const char *name, struct err *e)
{
    if (!json_object_get(component_list(doc, list), name)) {
        err_set(e, ERR_INTERNAL, "openapi.json has no %s %s", list, name);
        return NULL;
    }
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/%s/%s", list, name));
}

/* {"application/json": {"schema": ...}}, or the types of a body without a schema. */
static json_t *content_of(json_t *doc, const char *schema, struct err *e)
{
    json_t *ref;

    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (strcmp(bodies[i].name, schema) == 0) {
            json_t *types = json_pack("{s:{}}", bodies[i].type);

            if (bodies[i].other_type)
                json_object_set_new(types, bodies[i].other_type, json_object());
            return types;
        }
    if (strcmp(schema, "OpenApi") == 0)
        return json_pack("{s:{s:{s:s}}}", "application/json", "schema", "type", "object");
    ref = reference(doc, "schemas", schema, e);
    return ref ? json_pack("{s:{s:o}}", "application/json", "schema", ref) : NULL;
}

/* Adds the answer with this status; that of an error has a problem as body. */
static int add_answer(json_t *answers, json_t *doc, int status, const char *schema, struct err *e)
{
    static const struct {
        int status;
        const char *description, *header;
    } known[] = {
        {200, "done", NULL},
        {201, "made", "Location"},
        {202, "accepted", NULL},
        {204, "done", NULL},
        {304, "the client has it already (If-None-Match)", "ETag"},
        {429, NULL, "Retry-After"},
        {503, NULL, "Retry-After"},
    };
    json_t *o = json_object(), *body = NULL;
    char key[8];
    int rc = 0;

    snprintf(key, sizeof key, "%d", status);
    json_object_set_new(o, "description", json_string("a problem"));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].status == status) {
            if (known[i].description)
                json_object_set_new(o, "description", json_string(known[i].description));
            if (known[i].header)
                json_object_set_new(
                    o, "headers",
                    json_pack("{s:o}", known[i].header, reference(doc, "headers", known[i].header, e)));
        }
    if (schema[0])
        rc = (body = content_of(doc, schema, e)) ? 0 : e->code;
    else if (status >= 400)
        body = json_pack("{s:{s:o}}", PROBLEM, "schema", reference(doc, "schemas", "Problem", e));
    if (body)
        json_object_set_new(o, "content", body);
    json_object_set_new(answers, key, o);
    return rc;
}

/* What the gate may answer in place of the handler. */
static int add_gate(json_t *answers, json_t *doc, const struct route *r, struct err *e)
{
    const struct {
        int status;
        bool may_be;
    } gate[] = {
        {400, true},
        {403, true},
        {401, r->needs != NEEDS_NOTHING},
        {429, r->needs != NEEDS_NOTHING},
        {404, strchr(r->pattern, '{') != NULL},
        {410, r->flags & ROUTE_JOB},
        {411, r->max_body > 0 && !(r->flags & ROUTE_BODY_OPTIONAL)},
        {413, r->max_body > 0},
        {415, r->max_body > 0},
        {503, true}, /* too many requests at once, or no memory */
        {507, r->max_body > 0},
    };
    char key[8];

    for (size_t i = 0; i < sizeof gate / sizeof *gate; i++) {
        snprintf(key, sizeof key, "%d", gate[i].status);
        if (gate[i].may_be && !json_object_get(answers, key) &&
            add_answer(answers, doc, gate[i].status, "", e) < 0)
            return e->code;
    }
    return 0;
}

/* From "200 Job, 304, 409". */
static int add_answers(json_t *answers, json_t *doc, const struct route *r, struct err *e)
{
    const char *p = r->answers;

    while (*p) {
        char *schema;
        int status = (int)strtol(p, &schema, 10);
        char name[32];

        schema += *schema == ' ';
        snprintf(name, sizeof name, "%.*s", (int)strcspn(schema, ","), schema);
        if (add_answer(answers, doc, status, name, e) < 0)
            return e->code;
        p = schema + strlen(name);
        p += strspn(p, ", ");
    }
    return add_gate(answers, doc, r, e);
}

static int add_parameter(json_t *list, json_t *doc, const char *name, struct err *e)
{
    json_t *ref = reference(doc, "parameters", name, e);

    return ref && json_array_append_new(list, ref) == 0 ? 0 : ERR_INTERNAL;
}

static int add_parameters(json_t *list, json_t *doc, const struct route *r, struct err *e)
{
    for (const char *p = strchr(r->pattern, '{'); p; p = strchr(p + 1, '{')) {
        char name[16];

        snprintf(name, sizeof name, "%.*s", (int)strcspn(p + 1, "}"), p + 1);
        if (add_parameter(list, doc, name, e) < 0)
            return ERR_INTERNAL;
    }
    for (size_t i = 0; r->keys[i]; i++)
        if (add_parameter(list, doc, r->keys[i], e) < 0)
            return ERR_INTERNAL;
    if (r->flags & ROUTE_JOB || strcmp(r->pattern, "/v1/jobs") == 0)
        if (add_parameter(list, doc, "X-Job-Key", e) < 0)
            return ERR_INTERNAL;
    return r->flags & ROUTE_JOB ? add_parameter(list, doc, "X-Job-Attempt", e) : 0;
}

static int add_operation(json_t *methods, json_t *doc, const struct route *r, struct err *e)
{
    json_t *o = json_pack("{s:s}", "summary", r->summary), *parameters = json_array();
    json_t *answers = json_object(), *body = r->takes ? content_of(doc, r->takes, e) : NULL;
    char method[8] = "";

    for (size_t i = 0; i < sizeof method - 1 && method_names[r->method][i]; i++)
        method[i] = (char)(method_names[r->method][i] | 0x20);
    json_object_set_new(methods, method, o);
    json_object_set_new(o, "parameters", parameters);
    if (body)
        json_object_set_new(
            o, "requestBody",
            json_pack("{s:b,s:o}", "required", !(r->flags & ROUTE_BODY_OPTIONAL), "content", body));
    json_object_set_new(o, "responses", answers);
    json_object_set_new(o, "security",
                        r->needs == NEEDS_NOTHING ? json_array()
                        : r->needs == NEEDS_LOCAL ? json_pack("[{}, {s:[]}]", "token")
                                                  : json_pack("[{s:[]}]", "token"));
    if (r->takes && !body)
        return e->code;
    if (add_parameters(parameters, doc, r, e) < 0)
        return e->code;
    return add_answers(answers, doc, r, e);
}

static void fill_tables(json_t *doc)
{
    json_t *states = json_object_get(json_object_get(component_list(doc, "schemas"), "JobState"), "enum");
    json_t *codes = json_object_get(json_object_get(component_list(doc, "schemas"), "ProblemCode"), "enum");

    json_object_set_new(json_object_get(doc, "info"), "version", json_string(PSGD_VERSION));
    for (int s = 0; s < N_JOB_STATES; s++)
        json_array_append_new(states, json_string(job_state_name((enum job_state)s)));
    for (int p = PROBLEM_NONE + 1; p < N_PROBLEMS; p++)
        json_array_append_new(codes, json_string(problem_code((enum problem)p)));
}

/* Returns the document, which the caller frees. NULL: ERR_NOMEM, or ERR_INTERNAL: a route names a schema or a
 * parameter that openapi.json lacks. */
static json_t *openapi_document(struct err *e)
{
    json_t *doc, *paths = json_object();

    if (json_parse(&doc, openapi_bytes, (size_t)(openapi_bytes_end - openapi_bytes), "openapi.json", e) < 0) {
        json_decref(paths);
        return NULL;
    }
    fill_tables(doc);
    json_object_set_new(doc, "paths", paths);
    for (size_t i = 0; i < n_routes; i++) {
        json_t *methods = json_object_get(paths, routes[i].pattern);

        if (!methods) {
            methods = json_object();
            json_object_set_new(paths, routes[i].pattern, methods);
        }
        if (add_operation(methods, doc, &routes[i], e) < 0) {
            json_decref(doc);
            return NULL;
        }
    }
    return doc;
}

static int make_document(struct static_document *d, struct err *e)
{
    json_t *doc = openapi_document(e);
    char *text = doc ? json_line(doc) : NULL;

    json_decref(doc);
    if (text)
        static_document_set(d, text, strlen(text));
    else if (doc)
        err_set(e, ERR_NOMEM, "no memory for the document");
    return text ? 0 : e->code;
}

void api_openapi(struct agent *a, const struct request *rq, struct api_response *rs)
{
    struct err e = {0};

    if (!a->openapi.text && make_document(&a->openapi, &e) < 0)
        respond_error(rs, &e);
    else
        respond_static(rq, rs, &a->openapi, "application/json");
}
