/* GET /metrics: the state of the agent and its jobs, for Prometheus. docs/monitoring.md describes the
 * families. Counters begin at 0 when the agent starts, as Prometheus expects. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/api/agent_state.h"
#include "agent/api/api.h"
#include "agent/api/prometheus.h"

static void put_one(FILE *f, const char *name, const char *type, const char *help, double value)
{
    if (isnan(value))
        return;
    prometheus_family(f, name, type, help);
    prometheus_sample(f, name, NULL, value);
}

static void put_build(FILE *f, const struct agent *a)
{
    const json_t *facts = a->jobs.runner_about.facts;
    const json_t *abi = json_object_get(facts, "codec_abi");
    char number[24];
    const struct label labels[] = {{"version", PSGD_VERSION},
                                   {"abi", abi ? number : NULL},
                                   {"blas", json_string_value(json_object_get(facts, "engine"))},
                                   {0}};

    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(abi));
    prometheus_family(
        f, "psgd_build_info", "gauge",
        "Always 1. The labels are the versions of the agent and of its job_runner's interface to codecs, "
        "and the libraries that job_runner computes with.");
    prometheus_sample(f, "psgd_build_info", labels, 1);
}

static void put_agent(FILE *f, const struct agent *a)
{
    size_t n_peers = 0;

    for (const struct task *t = a->jobs.first; t; t = t->next)
        if (job_is_active(&t->job))
            n_peers += (size_t)(t->job.spec.node_count + t->job.spec.server_count - 1);
    put_one(f, "psgd_agent_slots", "gauge", "Jobs that the agent may run at a time.", a->opt.slots);
    put_one(f, "psgd_agent_slots_used", "gauge", "Jobs that hold one of the slots.",
            (double)task_count(&a->jobs, job_is_active));
    put_one(f, "psgd_agent_draining", "gauge", "1 while the agent is drained and takes no new jobs.",
            a->jobs.is_draining);
    put_one(f, "psgd_agent_disk_free_bytes", "gauge", "Space on the agent's disk that packages may use.",
            (double)jobs_disk_free(&a->jobs));
    put_one(f, "psgd_job_peers", "gauge", "Other nodes of the jobs that hold a slot, on any machine.",
            (double)n_peers);
}

static void put_states(FILE *f, const struct agent *a)
{
    size_t n[N_JOB_STATES] = {0};

    for (const struct task *t = a->jobs.first; t; t = t->next)
        n[t->job.state]++;
    prometheus_family(f, "psgd_jobs", "gauge", "Jobs that the agent keeps, including ended ones.");
    for (int s = 0; s < N_JOB_STATES; s++)
        prometheus_sample(f, "psgd_jobs", (struct label[]){{"state", job_state_name((enum job_state)s)}, {0}},
                          (double)n[s]);
}

static void put_ends(FILE *f, const struct counts *c)
{
    static const char name[] = "psgd_jobs_finished_total";

    prometheus_family(f, name, "counter",
                      "Jobs that have ended here. The reason is empty where there is none.");
    for (size_t k = 0; k <= COUNTS_CODECS; k++)
        for (size_t r = 0; counts_codec(c, k) && r < COUNTS_REASONS; r++)
            for (int s = JOB_SUCCEEDED; s < N_JOB_STATES; s++)
                if (c->codecs[k].ends[s - JOB_SUCCEEDED][r] > 0)
                    prometheus_sample(f, name,
                                      (struct label[]){{"state", job_state_name((enum job_state)s)},
                                                       {"reason", counts_reason(r)},
                                                       {"codec", counts_codec(c, k)},
                                                       {0}},
                                      (double)c->codecs[k].ends[s - JOB_SUCCEEDED][r]);
}

static void put_durations(FILE *f, const struct counts *c)
{
    static const struct {
        const char *name, *help;
        size_t at;
    } families[] = {
        {"psgd_job_queue_seconds", "From a job's reservation until it had a slot.",
         offsetof(struct count_codec, queued)},
        {"psgd_job_duration_seconds", "From a job's start to its end.",
         offsetof(struct count_codec, duration)},
    };

    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        prometheus_family(f, families[i].name, "histogram", families[i].help);
        for (size_t k = 0; k <= COUNTS_CODECS; k++) {
            const struct histogram *h = (const struct histogram *)(const void *)((const char *)&c->codecs[k] +
                                                                                 families[i].at);

            if (histogram_count(h) > 0)
                prometheus_histogram(f, families[i].name,
                                     (struct label[]){{"codec", counts_codec(c, k)}, {0}}, h,
                                     histogram_job_bounds);
        }
    }
}

/* One line for each counter of a role. */
static const struct {
    const char *name, *help;
    size_t at;
} role_families[] = {
    {"psgd_train_steps_total", "Steps of workers, and rounds of servers.",
     offsetof(struct count_role, steps)},
    {"psgd_train_samples_total", "Samples that workers have trained on.",
     offsetof(struct count_role, samples)},
    {"psgd_net_sent_bytes_total",
     "Bytes that nodes have sent to other nodes, including through shared memory.",
     offsetof(struct count_role, sent_bytes)},
    {"psgd_net_received_bytes_total", "Bytes of the messages that nodes have received and used.",
     offsetof(struct count_role, recv_bytes)},
    {"psgd_codec_raw_bytes_total", "Bytes sent, before compression and without headers.",
     offsetof(struct count_role, raw_bytes)},
};

static void put_roles(FILE *f, const struct counts *c)
{
    static const char *const roles[] = {"worker", "server"};

    for (size_t i = 0; i < sizeof role_families / sizeof *role_families; i++) {
        prometheus_family(f, role_families[i].name, "counter", role_families[i].help);
        for (size_t k = 0; k <= COUNTS_CODECS; k++)
            for (int r = 0; counts_codec(c, k) && r < 2; r++) {
                uint64_t v;

                memcpy(&v, (const char *)&c->codecs[k].roles[r] + role_families[i].at, sizeof v);
                if (v > 0)
                    prometheus_sample(
                        f, role_families[i].name,
                        (struct label[]){{"codec", counts_codec(c, k)}, {"role", roles[r]}, {0}}, (double)v);
            }
    }
}

static void put_phases(FILE *f, const struct counts *c)
{
    static const char name[] = "psgd_step_phase_seconds_total";

    prometheus_family(f, name, "counter", "Time of the nodes' steps, by phase.");
    for (int p = 0; p < N_STEP_PHASES; p++)
        prometheus_sample(f, name, (struct label[]){{"phase", phase_names[p]}, {0}}, c->phase_s[p]);
}

/* Gauges of the jobs that hold a slot, so that there are at most as many series at a time as slots. */
static void put_running(FILE *f, const struct agent *a, const struct request *rq, const char *name,
                        const char *help, double (*value_of)(const struct job *))
{
    prometheus_family(f, name, "gauge", help);
    for (const struct task *t = a->jobs.first; t; t = t->next) {
        const struct job *j = &t->job;
        double v = value_of(j);
        char node[16], slot[16];
        const struct label labels[] = {{"codec", j->spec.codec},
                                       {"node", node},
                                       {"slot", slot},
                                       {"job", a->opt.metrics_per_job ? j->spec.id : NULL},
                                       {0}};

        if (!job_is_active(j) || !j->data_port || isnan(v) || !api_is_listed(rq, j))
            continue;
        snprintf(node, sizeof node, "%d", j->spec.node);
        snprintf(slot, sizeof slot, "%d", j->slot);
        prometheus_sample(f, name, labels, v);
    }
}

static double loss_of(const struct job *j)
{
    return j->loss;
}

static double accuracy_of(const struct job *j)
{
    return j->eval_accuracy;
}

static double progress_of(const struct job *j)
{
    return j->steps > 0 ? fmin(1, (double)j->step / (double)j->steps) : NAN;
}

static void put_requests(FILE *f, const struct counts *c)
{
    static const char total[] = "psgd_http_requests_total", spent[] = "psgd_http_request_duration_seconds";

    prometheus_family(f, total, "counter", "Answered requests. The route is none if no route has the path.");
    for (size_t r = 0; route_label(r); r++)
        for (size_t m = 0; m < COUNTS_METHODS; m++)
            for (size_t s = 0; s < COUNTS_STATUSES; s++) {
                char code[16];

                if (c->requests[r][m][s] == 0)
                    continue;
                snprintf(code, sizeof code, "%d", counts_status(s));
                prometheus_sample(
                    f, total,
                    (struct label[]){
                        {"route", route_label(r)}, {"method", method_label(m)}, {"code", code}, {0}},
                    (double)c->requests[r][m][s]);
            }
    prometheus_family(f, spent, "histogram",
                      "From the head of a request to its answer. Some routes wait before they answer.");
    for (size_t r = 0; route_label(r); r++)
        for (size_t m = 0; m < COUNTS_METHODS; m++)
            if (histogram_count(&c->request_s[r][m]) > 0)
                prometheus_histogram(
                    f, spent, (struct label[]){{"route", route_label(r)}, {"method", method_label(m)}, {0}},
                    &c->request_s[r][m], histogram_request_bounds);
}

/* What the kernel says that this process uses. NAN: unknown. */
struct process_use {
    double cpu_s; /* of all threads */
    double resident_bytes, virtual_bytes;
    double open_files, max_open_files;
};

static double processor_seconds(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_SELF, &u) < 0)
        return NAN;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Without the descriptor of this folder. */
static double count_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    const struct dirent *f;
    int n = -1;

    if (!d)
        return NAN;
    while ((f = readdir(d)) != NULL)
        n += f->d_name[0] != '.';
    closedir(d);
    return n;
}

static void look_at_memory(struct process_use *s)
{
    FILE *f = fopen("/proc/self/statm", "re");
    double page = (double)sysconf(_SC_PAGESIZE), all, resident;

    s->resident_bytes = s->virtual_bytes = NAN;
    if (!f)
        return;
    if (fscanf(f, "%lf %lf", &all, &resident) == 2) {
        s->virtual_bytes = all * page;
        s->resident_bytes = resident * page;
    }
    fclose(f);
}

static void look_at_process(struct process_use *s)
{
    struct rlimit files;

    *s = (struct process_use){
        .cpu_s = processor_seconds(), .open_files = count_files(), .max_open_files = NAN};
    look_at_memory(s);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY)
        s->max_open_files = (double)files.rlim_cur;
}

static void put_process(FILE *f, const struct agent *a)
{
    struct process_use s;

    look_at_process(&s);
    put_one(f, "process_cpu_seconds_total", "counter", "Processor time of the agent, without its jobs.",
            s.cpu_s);
    put_one(f, "process_resident_memory_bytes", "gauge", "Memory of the agent, without its jobs.",
            s.resident_bytes);
    put_one(f, "process_virtual_memory_bytes", "gauge", "Address space of the agent.", s.virtual_bytes);
    put_one(f, "process_open_fds", "gauge", "Open descriptors of the agent.", s.open_files);
    put_one(f, "process_max_fds", "gauge", "Limit of open descriptors of the agent.", s.max_open_files);
    put_one(f, "process_start_time_seconds", "gauge", "Start time of the agent, in seconds since 1970.",
            a->since_wall);
}

void api_metrics(struct agent *a, const struct request *rq, struct api_response *rs)
{
    FILE *f = open_memstream(&rs->body, &rs->len);
    bool is_whole;

    runner_about_ask(&a->jobs.runner_about); /* for the next request */
    if (f) {
        put_build(f, a);
        put_agent(f, a);
        put_states(f, a);
        put_ends(f, &a->jobs.counts);
        put_durations(f, &a->jobs.counts);
        put_roles(f, &a->jobs.counts);
        put_phases(f, &a->jobs.counts);
        put_running(f, a, rq, "psgd_train_loss", "Loss of the last step of a running job.", loss_of);
        put_running(f, a, rq, "psgd_eval_accuracy_ratio",
                    "Accuracy of the last evaluation of a running job, 0 to 1.", accuracy_of);
        put_running(f, a, rq, "psgd_job_progress_ratio",
                    "Share of the steps of a running job that are done, 0 to 1.", progress_of);
        put_requests(f, &a->jobs.counts);
        put_process(f, a);
    }
    is_whole = f && !ferror(f);
    if (!f || fclose(f) != 0 || !is_whole)
        respond_problem(rs, OVERLOADED, NULL, "no memory for the metrics");
    else
        rs->type = PROMETHEUS_TYPE;
}
