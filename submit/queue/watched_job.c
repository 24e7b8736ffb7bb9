#include "submit/queue/watched_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/json.h"
#include "submit/queue/queued_files.h"

static void forget_document(struct watched_job *j)
{
    free(j->agents);
    free(j->chosen);
    json_decref(j->shown);
    j->agents = j->chosen = NULL;
    j->shown = NULL;
    j->plan = (struct plan_job){0};
}

void watched_job_forget(struct watched_job *j)
{
    forget_document(j);
    if (j->fd >= 0)
        close(j->fd);
}

static int add_agents(struct queue_agents *agents, struct watched_job *j, const json_t *doc,
                      const struct credentials *c, struct err *e)
{
    struct worker_list list;
    size_t n;

    if (queued_files_agents(&list, doc, e) < 0)
        return e->code;
    n = list.n_workers + list.n_servers;
    j->agents = calloc(n, sizeof *j->agents);
    j->chosen = calloc(n, sizeof *j->chosen);
    if (!j->agents || !j->chosen)
        err_set(e, ERR_NOMEM, "no memory for the agents of %s", j->id);
    for (size_t i = 0; i < n && e->code == 0; i++)
        queue_agents_add(&j->agents[i], agents, &list.nodes[i], c, e);
    j->plan = (struct plan_job){.agents = j->agents, .n_listed = list.n_workers, .n_servers = list.n_servers};
    worker_list_clear(&list);
    return e->code;
}

void watched_job_read_attempt(struct watched_job *j)
{
    json_t *o = queue_folder_get(j->id, QUEUE_ATTEMPT);
    int attempt = (int)json_number_at(o, "attempt", 0);

    if (attempt > j->attempt)
        j->attempt = attempt;
    json_decref(o);
}

static int read_job(struct queue_agents *agents, struct watched_job *j, struct err *e)
{
    static struct options o;
    const json_t *settings, *record;
    json_t *doc;
    int rc, n_workers, n_servers;

    *e = (struct err){0};
    if (queued_files_read_options(&o, &doc, j->id, e) < 0) {
        options_clear(&o);
        return e->code;
    }
    record = json_object_get(doc, "record");
    settings = json_object_get(record, "settings");
    n_workers = (int)json_number_at(settings, "node_count", 0);
    n_servers = (int)json_number_at(settings, "server_count", 0);
    rc = add_agents(agents, j, doc, &o.credentials, e);
    if (rc == 0 && (n_workers < 1 || (size_t)n_workers > j->plan.n_listed ||
                    (n_servers != 0 && (size_t)n_servers != j->plan.n_servers)))
        rc = err_set(e, ERR_CONFIG, "the list of agents is too short");
    j->plan.n_workers = (size_t)n_workers;
    j->plan.n_servers = (size_t)n_servers;
    watched_job_read_attempt(j);
    j->shown = json_pack("{s:s, s:o, s:o, s:i, s:o}", "id", j->id, "name",
                         json_text(json_text_at(settings, "name"), 64), "codec",
                         json_text(json_text_at(settings, "codec"), 64), "nodes", n_workers + n_servers,
                         "submitted_at", json_text(json_text_at(record, "submitted_at"), 32));
    json_decref(doc);
    options_clear(&o);
    return rc;
}

void watched_job_read(struct watched_job *j, struct queue_agents *agents)
{
    char why[sizeof j->bad] = "";
    struct err e;

    forget_document(j);
    if (read_job(agents, j, &e) < 0)
        snprintf(why, sizeof why, "%.300s", e.text);
    if (why[0] && strcmp(why, j->bad) != 0)
        fprintf(stderr, "%s: %s\n", j->id, why);
    memcpy(j->bad, why, sizeof j->bad);
}
