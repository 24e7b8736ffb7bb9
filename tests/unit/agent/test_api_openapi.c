/* GET /openapi.json, by its handler and of a whole agent. */
#include "tests/lib/agent_fixture.h"
#include "tests/unit/unit.h"

static json_t *document(void)
{
    static struct agent agent;
    const struct request rq = {.method = METHOD_GET};
    struct api_response rs = {0};

    api_openapi(&agent, &rq, &rs);
    if (rs.status != 0)
        fail_msg("%s", rs.body);
    return json_loads(rs.static_body, 0, NULL);
}

/* The value that "#/a/b" points to. */
static const json_t *at(const json_t *doc, const char *pointer)
{
    char text[128], *rest = text, *key;

    snprintf(text, sizeof text, "%s", pointer);
    assert_string_equal(strsep(&rest, "/"), "#");
    while (doc && (key = strsep(&rest, "/")) != NULL)
        doc = json_object_get(doc, key);
    return doc;
}

/* Checks all references in `v`; returns how many there are. */
static size_t resolve(const json_t *doc, const json_t *v)
{
    const char *key;
    json_t *part;
    size_t n = 0, i;

    json_array_foreach(v, i, part) n += resolve(doc, part);
    json_object_foreach((json_t *)(uintptr_t)v, key, part)
    {
        if (strcmp(key, "$ref") == 0 && ++n && !at(doc, json_string_value(part)))
            fail_msg("%s leads nowhere", json_string_value(part));
        n += resolve(doc, part);
    }
    return n;
}

TEST(every_route_is_in_the_document_and_every_reference_resolves)
{
    json_t *doc = document();

    assert_true(resolve(doc, doc) > 100);
    for (size_t i = 0; i < n_routes; i++) {
        const json_t *methods = json_object_get(json_object_get(doc, "paths"), routes[i].pattern);
        char method[8] = "";

        for (size_t k = 0; method_names[routes[i].method][k]; k++)
            method[k] = (char)(method_names[routes[i].method][k] | 0x20);
        assert_string_equal(json_string_value(json_object_get(json_object_get(methods, method), "summary")),
                            routes[i].summary);
    }
    json_decref(doc);
}

static struct reply r;

/* The keys of the answer's object are those of the schema, all of them. */
static void check_keys(struct fixture *f, const char *path, const char *schema)
{
    char pointer[64];
    json_t *doc = document(), *answer, *part;
    const json_t *properties, *required;
    const char *key;
    size_t i;

    assert_int_equal(ask(f, &r, "GET", path, NULL), 200);
    answer = json_loads(r.body, 0, NULL);
    snprintf(pointer, sizeof pointer, "#/components/schemas/%s", schema);
    properties = json_object_get(at(doc, pointer), "properties");
    required = json_object_get(at(doc, pointer), "required");
    json_object_foreach(answer, key, part) if (!json_object_get(properties, key))
        fail_msg("%s: openapi.json has no %s of %s", path, key, schema);
    json_array_foreach(required, i, part) if (!json_object_get(answer, json_string_value(part)))
        fail_msg("%s: no %s, which openapi.json requires", path, json_string_value(part));
    json_object_foreach((json_t *)(uintptr_t)properties, key, part) if (!json_object_get(answer, key))
        fail_msg("%s: no %s, which openapi.json has", path, key);
    json_decref(answer);
    json_decref(doc);
}

TEST(resources_have_the_keys_of_their_schemas)
{
    struct fixture f = {0};

    fixture_open(&f);
    job_reserve(&f, &r, "j-abcdef", false);
    check_keys(&f, "/v1/jobs/j-abcdef", "Job");
    check_keys(&f, "/v1/jobs", "Jobs");
    check_keys(&f, "/v1/agent", "Agent");
    check_keys(&f, "/v1/agent/trainers", "Trainers");
    ask(&f, &r, "GET", "/v1/agent/runner", NULL);
    assert_non_null(strstr(r.body, "\"engine\":\"none\""));
    check_keys(&f, "/v1/status", "Status");
    check_keys(&f, "/readyz", "Ready");
    check_keys(&f, "/v1/jobs/j-abcdef/artifacts", "Artifacts");
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_is_in_the_document_and_every_reference_resolves),
        cmocka_unit_test(resources_have_the_keys_of_their_schemas),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
