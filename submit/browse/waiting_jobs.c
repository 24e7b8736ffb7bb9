#include "submit/browse/waiting_jobs.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "shared/base/json.h"
#include "submit/browse/documents.h"
#include "submit/files/job_id.h"

/* The element of the user, which is added if there is none. */
static json_t *find_user(json_t *list, const char *user)
{
    json_t *one;
    size_t i;

    json_array_foreach(list, i, one) if (strcmp(json_text_at(one, "user"), user) == 0) return one;
    one = json_pack("{s:s, s:i, s:[]}", "user", user, "waiting", 0, "jobs");
    return json_array_append_new(list, one) < 0 ? NULL : one;
}

static bool has_job(const json_t *jobs, const char *id)
{
    const json_t *one;
    size_t i;

    json_array_foreach(jobs, i, one) if (strcmp(json_text_at(one, "id"), id) == 0) return true;
    return false;
}

static void add_jobs(json_t *jobs, const json_t *said)
{
    json_t *one;
    size_t i;

    json_array_foreach(said, i, one)
    {
        const char *id = shown_text(one, "id");

        if (id && job_id_is_valid(id) && !has_job(jobs, id))
            json_array_append(jobs, one);
    }
}

void waiting_jobs_add(json_t *list, const json_t *answer)
{
    const json_t *said;
    size_t i;

    json_array_foreach(json_object_get(answer, "queues"), i, said)
    {
        json_t *user = shown_text(said, "user") ? find_user(list, shown_text(said, "user")) : NULL;
        json_t *jobs = json_object_get(user, "jobs");
        double n = fmin(fmax(json_number_at(user, "waiting", 0), json_number_at(said, "waiting", 0)), 1e6);

        if (!user)
            continue;
        add_jobs(jobs, json_object_get(said, "jobs"));
        n = fmax(n, (double)json_array_size(jobs));
        json_object_set_new(user, "waiting", json_integer((json_int_t)n));
    }
}
