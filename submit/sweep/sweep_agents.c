#include "submit/sweep/sweep_agents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/options/hosts.h"
#include "submit/options/options_config.h"
#include "submit/options/options_table.h"
#include "submit/terminal/console.h"

/* The most workers that a combination has. */
static size_t most_workers(const struct sweep *s)
{
    const struct sweep_plan *p = &s->plan;
    long most = s->opt->settings.node_count;

    for (size_t i = 0; i < p->n_axes; i++)
        if (options_is_same_name(p->axes[i].key, "node_count")) {
            most = 1;
            for (size_t k = 0; k < p->axes[i].n; k++)
                most = strtol(p->axes[i].values[k], NULL, 10) > most ? strtol(p->axes[i].values[k], NULL, 10)
                                                                     : most;
        }
    return most > 0 ? (size_t)most : 1;
}

static int read_number(size_t *out, const char *text, struct err *e)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (text[0] < '1' || text[0] > '9' || *end || n > SWEEP_LANES)
        return err_set(e, ERR_USAGE, "--parallel %s: neither auto nor a number from 1 to %d", text,
                       SWEEP_LANES);
    *out = n;
    return 0;
}

/* How many runs the agents of the list can have at once. */
static int count_shares(size_t *out, const struct sweep *s, struct err *e)
{
    struct worker_list all = {0};

    if (options_is_given(s->opt, offsetof(struct options, worker_hosts)))
        return err_set(e, ERR_USAGE,
                       "--parallel divides a list of agents: give --workers FILE instead of "
                       "--worker_hosts");
    if (hosts_read(&all, s->opt, e) < 0)
        return e->code;
    *out = all.n_servers > 0 ? 1 : all.n_workers / most_workers(s);
    if (all.n_servers > 0)
        err_set(e, ERR_USAGE, "--parallel: %s lists parameter servers, and each job takes all of them",
                hosts_name(s->opt));
    else
        err_set(e, ERR_USAGE, "--parallel %s: runs of %zu workers at once; %s lists %zu workers",
                s->opt->parallel, most_workers(s), hosts_name(s->opt), all.n_workers);
    worker_list_clear(&all);
    return 0;
}

int sweep_count_lanes(struct sweep *s, struct err *e)
{
    const char *text = s->opt->parallel;
    size_t wanted, shares = 0, n = s->plan.n_combinations * s->plan.n_repeats;
    bool is_auto = strcmp(text, "auto") == 0;

    s->n_lanes = 1;
    if (!text[0])
        return 0;
    wanted = n < SWEEP_LANES ? n : SWEEP_LANES;
    if (!is_auto && read_number(&wanted, text, e) < 0)
        return e->code;
    if (s->opt->simulate)
        return err_set(e, ERR_USAGE,
                       "--parallel is for jobs on agents: simulations at once would slow down "
                       "the steps that they measure on this machine");
    if (count_shares(&shares, s, e) < 0 || (!is_auto && wanted > shares))
        return e->code;
    s->n_lanes = wanted < shares ? wanted : shares > 0 ? shares : 1;
    console_info("%zu run%s at once.", s->n_lanes, s->n_lanes == 1 ? "" : "s");
    return 0;
}

int sweep_lane_list(char out[PATH_MAX], const struct sweep *s, size_t lane, struct err *e)
{
    char name[40];

    snprintf(name, sizeof name, "lanes/%zu.json", lane + 1);
    out[0] = '\0';
    return s->n_lanes > 1 ? file_join(out, PATH_MAX, s->folder, name, e) : 0;
}

/* "sha256//BASE64=" of a fingerprint in base64url. */
static json_t *pin_json(const char *pin)
{
    char text[BASE64_TEXT + 16];

    snprintf(text, sizeof text, "sha256//%s=", pin);
    for (char *c = text + 8; *c; c++)
        *c = (char)(*c == '-' ? '+' : *c == '_' ? '/' : *c);
    return json_string(text);
}

static void put_agent(json_t *list, json_t *nodes, const struct listed_agent *a)
{
    char token_file[PATH_MAX];
    json_t *more = json_object();
    struct err ignored;

    json_array_append_new(list, json_string(a->address));
    if (a->token_file[0] && file_absolute(token_file, sizeof token_file, a->token_file, &ignored) == 0)
        json_object_set_new(more, "token_file", json_text(token_file, SIZE_MAX));
    if (a->advertise[0])
        json_object_set_new(more, "advertise", json_string(a->advertise));
    if (a->pin[0])
        json_object_set_new(more, "fingerprint", pin_json(a->pin));
    if (json_object_size(more) > 0)
        json_object_set(nodes, a->address, more);
    json_decref(more);
}

json_t *sweep_share_agents(const struct worker_list *all, size_t lane, size_t n)
{
    json_t *workers = json_array(), *spares = json_array(), *nodes = json_object();
    size_t n_workers = all->n_workers / n, n_spares = all->n_spares / n;
    const struct listed_agent *spare = all->nodes + all->n_workers + all->n_servers;

    for (size_t i = 0; i < n_workers; i++)
        put_agent(workers, nodes, &all->nodes[lane * n_workers + i]);
    for (size_t i = 0; i < n_spares; i++)
        put_agent(spares, nodes, &spare[lane * n_spares + i]);
    return json_pack("{s:o, s:o, s:o}", "Worker", workers, "Spare", spares, "nodes", nodes);
}

static int write_list(const char *path, json_t *doc, struct err *e)
{
    char *text = doc ? json_dump_line(doc, JSON_INDENT(1)) : NULL;
    int rc = text ? file_write(path, text, strlen(text), 0644, e)
                  : err_set(e, ERR_NOMEM, "no memory for a list of agents");

    free(text);
    json_decref(doc);
    return rc;
}

int sweep_write_lanes(const struct sweep *s, struct err *e)
{
    struct worker_list all = {0};
    char path[PATH_MAX];
    int rc;

    if (s->n_lanes == 1)
        return 0;
    rc = file_join(path, sizeof path, s->folder, "lanes", e);
    if (rc == 0)
        rc = file_mkdirs(path, 0777, e);
    if (rc == 0)
        rc = hosts_read(&all, s->opt, e);
    for (size_t lane = 0; lane < s->n_lanes && rc == 0; lane++) {
        rc = sweep_lane_list(path, s, lane, e);
        if (rc == 0)
            rc = write_list(path, sweep_share_agents(&all, lane, s->n_lanes), e);
    }
    worker_list_clear(&all);
    return rc;
}
