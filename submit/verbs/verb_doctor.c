/* doctor: what keeps this machine, and the agents of worker.json, from running a job, and what to do.
 * Without that file it looks at this machine only. With --connect a small job shows that all nodes reach
 * each other. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/json.h"
#include "shared/plugin/compile.h"
#include "submit/doctor/checks.h"
#include "submit/doctor/test_job.h"
#include "submit/job/moved_nodes.h"
#include "submit/options/hosts.h"
#include "submit/terminal/console.h"
#include "submit/terminal/exit_status.h"
#include "submit/terminal/standard_output.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

struct doctor {
    struct worker_list workers;
    struct probed_host *all; /* (n): this machine, then the nodes of worker.json */
    size_t n;
    struct test_job test_job; /* with --connect */
};

/* A user's codec is compiled on this machine by $CC, else cc. */
static void check_own_compiler(struct probed_host *p)
{
    const char *cc = getenv("CC");
    char version[256];

    cc = cc && cc[0] ? cc : "cc";
    compile_version(version, sizeof version, cc);
    if (version[0])
        probed_host_note(p, LEVEL_OK, "codecs", NULL, "codecs that are written here are compiled by %s",
                         version);
    else
        probed_host_note(p, LEVEL_WARNING, "codecs", "Install gcc or clang, or set CC.",
                         "%s does not run, so a codec that is a .c file cannot be submitted from here", cc);
}

/* A list that is missing where none is named is no failure. */
static int read_workers(struct doctor *d, const struct options *o, struct err *e)
{
    bool is_named = getenv("PSGD_WORKERS") || o->worker_hosts[0] || strcmp(o->workers, "worker.json") != 0;

    if (!is_named && access(o->workers, F_OK) < 0 && errno == ENOENT) {
        console_info("There is no %s: only this machine is looked at.", o->workers);
        return 0;
    }
    return hosts_read(&d->workers, o, e);
}

/* A spare is numbered behind the workers, as if it were one more. */
static void open_host(struct probed_host *p, size_t i, const struct worker_list *w, const struct options *o)
{
    size_t n_listed = w->n_workers + w->n_servers;
    struct err e;

    p->role = i < w->n_workers ? "worker" : i < n_listed ? "server" : "spare";
    p->node.at = w->nodes[i];
    if (i >= n_listed)
        p->node.at.node = (int)(i - w->n_servers);
    snprintf(p->node.label, sizeof p->node.label, "agent %s", p->node.at.address);
    if (node_find_access(&p->node, &o->credentials, &e) < 0)
        probed_host_fail(p, "access", &e);
}

static const struct probed_host *first_answered(const struct doctor *d)
{
    for (size_t i = 1; i < d->n; i++)
        if (d->all[i].has_answered)
            return &d->all[i];
    return &d->all[0];
}

static int examine(struct doctor *d, const struct options *o, struct err *e)
{
    size_t n_listed = d->workers.n_workers + d->workers.n_servers + d->workers.n_spares;

    d->all = calloc(n_listed + 1, sizeof *d->all);
    if (!d->all)
        return err_set(e, ERR_NOMEM, "no memory for %zu nodes", n_listed);
    d->n = n_listed + 1;
    probed_host_read_here(&d->all[0]);
    for (size_t i = 1; i < d->n; i++)
        open_host(&d->all[i], i - 1, &d->workers, o);
    if (n_listed > 0)
        console_info("Asks %zu agent%s; one that has not answered within %g s counts as unreachable.",
                     n_listed, n_listed == 1 ? "" : "s", DOCTOR_S);
    if (moved_nodes_find(&d->all[1].node, n_listed, sizeof *d->all, e) < 0)
        return e->code;
    for (size_t i = 1; i < d->n; i++)
        d->all[i].has_token = d->all[i].node.token[0];
    if (probed_hosts_ask(d->all + 1, n_listed, e) < 0)
        return e->code;
    for (size_t i = 0; i < d->n; i++)
        if (d->all[i].has_answered)
            checks_run(&d->all[i], first_answered(d));
    check_own_compiler(&d->all[0]);
    return 0;
}

/* Of the first error: agents come before this machine, which can submit in any case. */
static int status_of(const struct doctor *d)
{
    for (size_t i = 1; i < d->n; i++)
        if (d->all[i].code)
            return failure_status(d->all[i].code);
    if (d->all[0].code || d->test_job.code)
        return failure_status(d->all[0].code ? d->all[0].code : d->test_job.code);
    return 0;
}

static json_t *findings_json(const struct probed_host *p)
{
    json_t *list = json_array();

    for (size_t i = 0; i < p->n_findings; i++) {
        const struct finding *f = &p->findings[i];

        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o?}", "check", f->check, "level",
                                              level_name(f->level), "text", json_text(f->text, SIZE_MAX),
                                              "fix", f->fix[0] ? json_text(f->fix, SIZE_MAX) : NULL));
    }
    return list;
}

static json_t *host_json(const struct probed_host *p)
{
    json_t *o = json_pack("{s:s, s:o}", "level", level_name(probed_host_level(p)), "findings",
                          findings_json(p));

    if (p->is_here)
        return o;
    json_object_set_new(o, "node", json_integer(p->node.at.node));
    json_object_set_new(o, "role", json_string(p->role));
    json_object_set_new(o, "address", json_string(p->node.at.address));
    json_object_set_new(o, "connect_s", json_real_or_null(p->has_answered ? p->connect_s : NAN));
    json_object_set_new(o, "round_trip_s", json_real_or_null(p->has_answered ? p->round_trip_s : NAN));
    json_object_set_new(o, "clock_ahead_s", json_real_or_null(p->has_answered ? p->clock_ahead_s : NAN));
    return o;
}

static void print_json(const struct doctor *d, int status)
{
    json_t *nodes = json_array();
    json_t *o = json_pack("{s:f, s:o, s:O}", "deadline_s", DOCTOR_S, "here", host_json(&d->all[0]), "nodes",
                          nodes);

    for (size_t i = 1; i < d->n; i++)
        json_array_append_new(nodes, host_json(&d->all[i]));
    json_decref(nodes);
    if (d->test_job.text[0])
        json_object_set_new(o, "connect",
                            json_pack("{s:s, s:o}", "level", d->test_job.code ? "error" : "ok", "text",
                                      json_text(d->test_job.text, SIZE_MAX)));
    output_json(status == 0, o, NULL, NULL);
}

static void print_heading(const struct probed_host *p)
{
    static const char *const usable[] = {"can be used", "can be used", "cannot be used"};

    if (p->is_here)
        text_print("this machine: %s\n", level_name(probed_host_level(p)));
    else
        text_print("node(%d)%s %s: %s\n", p->node.at.node, strcmp(p->role, "spare") == 0 ? ", a spare," : "",
                   p->node.at.address, usable[probed_host_level(p)]);
}

/* Whether an agent is in order in the same words as this machine, which has been printed before. */
static bool is_as_here(const struct finding *f, const struct probed_host *here)
{
    if (f->level != LEVEL_OK)
        return false;
    for (size_t i = 0; i < here->n_findings; i++)
        if (strcmp(f->check, here->findings[i].check) == 0)
            return strcmp(f->text, here->findings[i].text) == 0;
    return false;
}

static void print_host(const struct probed_host *p, const struct probed_host *here, bool only_bad)
{
    char same[FINDINGS_MAX * 20] = "";

    print_heading(p);
    for (size_t i = 0; i < p->n_findings; i++) {
        const struct finding *f = &p->findings[i];

        if (only_bad && f->level == LEVEL_OK)
            continue;
        if (!p->is_here && is_as_here(f, here)) {
            size_t len = strlen(same);

            snprintf(same + len, sizeof same - len, "%s%s", len ? ", " : "", f->check);
            continue;
        }
        text_print("  %-8s %-14s %s%s\n", level_name(f->level), f->check, f->text, text_stop(f->text));
        if (f->fix[0])
            text_print("  %-8s %-14s to do: %s\n", "", "", f->fix);
    }
    if (same[0])
        text_print("  %-8s %-14s %s.\n", level_name(LEVEL_OK), "as here", same);
}

static void print_all(const struct doctor *d, bool only_bad)
{
    for (size_t i = 0; i < d->n; i++)
        print_host(&d->all[i], &d->all[0], only_bad);
    if (d->test_job.text[0])
        text_print("connections between nodes: %s\n  %s\n", d->test_job.code ? "error" : "ok",
                   d->test_job.text);
}

int verb_doctor(const struct options *o, struct err *e)
{
    struct doctor d = {0};
    int status = read_workers(&d, o, e) < 0 || examine(&d, o, e) < 0 ? e->code : status_of(&d);

    if (status == 0 && o->connect && d.n > 1) {
        test_job_run(&d.test_job, o, d.n - 1);
        status = status_of(&d);
    }
    if (status >= 0 && o->json)
        print_json(&d, status);
    else if (status >= 0)
        print_all(&d, o->quiet);
    free(d.all);
    worker_list_clear(&d.workers);
    return status;
}
