#include "submit/doctor/probed_host.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "codecs/codec_events.h"
#include "shared/base/address.h"
#include "shared/base/child.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "submit/terminal/text.h"

static const double DISK_LOW = 256 << 20, DISK_NONE = 16 << 20, CLOCK_FAR_S = 60, GIB = 1 << 30;

/* Findings. */

const char *finding_level_name(enum finding_level l)
{
    static const char *const names[] = {"ok", "warning", "error"};

    return names[l];
}

enum finding_level probed_host_level(const struct probed_host *p)
{
    enum finding_level worst = FINDING_OK;

    for (size_t i = 0; i < p->n_findings; i++)
        if (p->findings[i].level > worst)
            worst = p->findings[i].level;
    return worst;
}

struct finding *probed_host_note(struct probed_host *p, enum finding_level l, const char *check,
                                 const char *fix, const char *fmt, ...)
{
    struct finding *f = &p->findings[p->n_findings < FINDINGS_MAX ? p->n_findings++ : FINDINGS_MAX - 1];
    va_list ap;

    *f = (struct finding){.level = l, .check = check};
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
    snprintf(f->fix, sizeof f->fix, "%s", l == FINDING_OK || !fix ? "" : fix);
    return f;
}

void probed_host_fail(struct probed_host *p, const char *check, const struct err *e)
{
    probed_host_note(p, FINDING_ERROR, check, e->hint, "%.*s", FINDING_TEXT - 1, e->text);
    if (!p->code)
        p->code = e->code;
}

/* What a host reports. */

static void get_text(char *out, size_t size, const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    snprintf(out, size, "%s", s ? s : "");
    utf8_clean(out, strlen(out), false);
}

static double get_number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return json_is_number(v) ? json_number_value(v) : NAN;
}

static void read_runner(struct probed_host *p, const json_t *runner)
{
    get_text(p->engine, sizeof p->engine, runner, "engine");
    get_text(p->runner_error, sizeof p->runner_error, runner, "error");
    p->codec_abi = get_number(runner, "codec_abi");
    p->frame_version = get_number(runner, "frame_version");
}

int probed_host_read(struct probed_host *p, const char *text, size_t len, struct err *e)
{
    struct agent_view view;
    const json_t *machine;
    json_t *o;

    if (reply_agent(&view, text, len, e) < 0 || json_parse(&o, text, len, "answer", e) < 0)
        return e->code = ERR_PROTOCOL;
    memcpy(p->version, view.version, sizeof p->version);
    get_text(p->isolation, sizeof p->isolation, o, "isolation");
    get_text(p->data_host, sizeof p->data_host, o, "data_host");
    get_text(p->scope, sizeof p->scope, json_object_get(o, "you"), "scope");
    get_text(p->trainers, sizeof p->trainers, o, "trainers");
    get_text(p->trainer_isolation, sizeof p->trainer_isolation, o, "trainer_isolation");
    p->slots_free = get_number(o, "slots_free");
    p->disk_free_bytes = get_number(o, "disk_free_bytes");
    p->clock_ahead_s = get_number(o, "wall_s");
    read_runner(p, json_object_get(o, "runner"));
    machine = json_object_get(o, "machine");
    p->has_machine = json_is_object(machine);
    machine_parse(&p->machine, machine);
    p->has_answered = true;
    json_decref(o);
    return 0;
}

bool probed_host_runs_trainers(const struct probed_host *p)
{
    return p->has_answered && p->trainers[0] && strcmp(p->trainers, "none") != 0;
}

int probed_host_read_runner(struct probed_host *p, const char *text, size_t len, struct err *e)
{
    json_t *o;

    if (json_parse(&o, text, len, "answer", e) < 0)
        return e->code = ERR_PROTOCOL;
    read_runner(p, o);
    json_decref(o);
    return 0;
}

int probed_host_read_trainers(struct probed_host *p, const char *text, size_t len, struct err *e)
{
    json_t *o, *name;
    size_t i;

    if (json_parse(&o, text, len, "answer", e) < 0)
        return e->code = ERR_PROTOCOL;
    get_text(p->trainer_python, sizeof p->trainer_python, o, "trainer_python");
    get_text(p->python, sizeof p->python, o, "python");
    get_text(p->numpy, sizeof p->numpy, o, "numpy");
    get_text(p->torch, sizeof p->torch, o, "torch");
    get_text(p->trainer_error, sizeof p->trainer_error, o, "trainer_error");
    p->gpus[0] = '\0';
    json_array_foreach(json_object_get(o, "gpus"), i, name)
    {
        size_t at = strlen(p->gpus);

        snprintf(p->gpus + at, sizeof p->gpus - at, "%s%s", at > 0 ? ", " : "",
                 json_is_string(name) ? json_string_value(name) : "");
    }
    utf8_clean(p->gpus, strlen(p->gpus), false);
    p->has_told_python = p->python[0] || p->trainer_error[0];
    json_decref(o);
    return 0;
}

/* The line that `job_runner --about` prints: protocol.md, section 2. */
static int ask_runner(struct probed_host *p, struct err *e)
{
    char path[PATH_MAX], dir[PATH_MAX], about[] = "--about", line[512];
    char *argv[] = {path, about, NULL};
    struct child_how how = {.argv = argv, .err = -1};
    struct child c;
    json_t *doc;
    ssize_t n;
    int fds[2];
    int rc;

    if (file_exe_dir(dir, sizeof dir, e) < 0 || file_join(path, sizeof path, dir, "job_runner", e) < 0)
        return e->code;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_call(e, ERR_IO, CALL_PIPE, "pipe");
    how.out = fds[1];
    rc = child_start(&c, &how, e);
    close(fds[1]);
    if (rc == 0 && child_wait(&c) != 0)
        rc = err_set(e, ERR_IO, "%s does not start; is a library missing?", path);
    n = rc == 0 ? read(fds[0], line, sizeof line) : 0;
    close(fds[0]);
    if (rc < 0 || json_parse(&doc, line, n > 0 ? (size_t)n : 0, "job_runner --about", e) < 0)
        return e->code;
    read_runner(p, doc);
    json_decref(doc);
    return 0;
}

void probed_host_read_here(struct probed_host *p)
{
    struct err e;

    p->is_here = p->has_answered = p->has_machine = true;
    p->slots_free = p->disk_free_bytes = p->clock_ahead_s = NAN;
    p->codec_abi = CODEC_ABI;
    p->frame_version = NAN;
    snprintf(p->version, sizeof p->version, "%s", PSGD_VERSION);
    machine_look(&p->machine);
    if (ask_runner(p, &e) < 0)
        snprintf(p->runner_error, sizeof p->runner_error, "%.250s", e.text);
}

/* The checks: a function for each line of the table. */

static enum finding_level check_reached(const struct probed_host *p, const struct probed_host *first,
                                        char *text, size_t size)
{
    (void)first;
    if (p->is_here)
        return FINDING_OK;
    snprintf(text, size, "it answered in %.1f ms, including the connection", p->connect_s * 1e3);
    if (!isnan(p->round_trip_s))
        snprintf(text + strlen(text), size - strlen(text), "; a round trip takes %.1f ms",
                 p->round_trip_s * 1e3);
    return FINDING_OK;
}

static enum finding_level check_access(const struct probed_host *p, const struct probed_host *first,
                                       char *text, size_t size)
{
    const struct job_node *n = &p->node;

    (void)first;
    if (p->is_here)
        return FINDING_OK;
    snprintf(text, size, "%s, token from %s",
             node_has_ca(n) ? "its certificate is one of --ca"
             : n->pin[0]    ? "its key is the pinned one"
                            : "without TLS",
             p->has_token              ? n->token_sources
             : n->credentials->cert[0] ? "nowhere: --cert replaces it"
                                       : "nowhere: the agent requires none");
    return FINDING_OK;
}

static enum finding_level check_scope(const struct probed_host *p, const struct probed_host *first,
                                      char *text, size_t size)
{
    (void)first;
    if (p->is_here || !p->scope[0])
        return FINDING_OK;
    snprintf(text, size, "it grants this user scope %s", p->scope);
    return strcmp(p->scope, "read") == 0 ? FINDING_ERROR : FINDING_OK;
}

/* Programs of one version are compatible; of others, the ABI of codecs and the version of frames are
 * compared. */
static enum finding_level check_version(const struct probed_host *p, const struct probed_host *first,
                                        char *text, size_t size)
{
    snprintf(text, size, "psgd %s", p->version);
    if (!isnan(p->codec_abi))
        snprintf(text + strlen(text), size - strlen(text), ", codecs of ABI %.0f", p->codec_abi);
    if (!isnan(p->frame_version))
        snprintf(text + strlen(text), size - strlen(text), ", frames of version %.0f", p->frame_version);
    if (!isnan(p->codec_abi) && p->codec_abi != CODEC_ABI) {
        snprintf(text + strlen(text), size - strlen(text), "; this job_submit makes codecs of ABI %d",
                 CODEC_ABI);
        return FINDING_ERROR;
    }
    if (!isnan(p->frame_version) && !isnan(first->frame_version) &&
        p->frame_version != first->frame_version) {
        snprintf(text + strlen(text), size - strlen(text),
                 "; node %d has version %.0f, so they cannot connect", first->node.at.node,
                 first->frame_version);
        return FINDING_ERROR;
    }
    if (strcmp(p->version, PSGD_VERSION) == 0)
        return FINDING_OK;
    snprintf(text + strlen(text), size - strlen(text), "; this job_submit is %s", PSGD_VERSION);
    return FINDING_WARNING;
}

static enum finding_level check_runner(const struct probed_host *p, const struct probed_host *first,
                                       char *text, size_t size)
{
    (void)first;
    if (!p->runner_error[0])
        return FINDING_OK;
    snprintf(text, size, "%s", p->runner_error);
    return FINDING_ERROR;
}

/* The length of `engine` without its ", 4 threads", which do not change results. */
static size_t kernels_of(const char *engine)
{
    const char *last = strrchr(engine, ',');

    return last ? (size_t)(last - engine) : strlen(engine);
}

static enum finding_level check_kernels(const struct probed_host *p, const struct probed_host *first,
                                        char *text, size_t size)
{
    size_t n = kernels_of(p->engine), n_first = kernels_of(first->engine);

    if (!p->engine[0])
        return FINDING_OK;
    snprintf(text, size, "it computes with %.*s", (int)n, p->engine);
    if (p->is_here || !first->engine[0] || (n == n_first && strncmp(p->engine, first->engine, n) == 0))
        return FINDING_OK;
    snprintf(text + strlen(text), size - strlen(text),
             "; node %d with %.*s: their last bits differ, so no run repeats exactly elsewhere",
             first->node.at.node, (int)n_first, first->engine);
    return FINDING_WARNING;
}

static enum finding_level check_clock(const struct probed_host *p, const struct probed_host *first,
                                      char *text, size_t size)
{
    double off = fabs(p->clock_ahead_s);

    (void)first;
    if (isnan(off))
        return FINDING_OK;
    snprintf(text, size, "its clock is %.3f s %s this machine's; no result depends on it", off,
             p->clock_ahead_s < 0 ? "behind" : "ahead of");
    return off > CLOCK_FAR_S ? FINDING_WARNING : FINDING_OK;
}

static enum finding_level check_slot(const struct probed_host *p, const struct probed_host *first, char *text,
                                     size_t size)
{
    (void)first;
    if (isnan(p->slots_free))
        return FINDING_OK;
    snprintf(text, size,
             p->slots_free > 0 ? "it is free for a job"
                               : "it runs another job, behind which a new one waits");
    return p->slots_free > 0 ? FINDING_OK : FINDING_WARNING;
}

static enum finding_level check_disk(const struct probed_host *p, const struct probed_host *first, char *text,
                                     size_t size)
{
    char amount[TEXT_AMOUNT];

    (void)first;
    if (isnan(p->disk_free_bytes))
        return FINDING_OK;
    text_bytes(amount, (uint64_t)fmax(p->disk_free_bytes, 0));
    snprintf(text, size, "%s of its disk are left for packages and results", amount);
    return p->disk_free_bytes < DISK_NONE  ? FINDING_ERROR
           : p->disk_free_bytes < DISK_LOW ? FINDING_WARNING
                                           : FINDING_OK;
}

static enum finding_level check_isolation(const struct probed_host *p, const struct probed_host *first,
                                          char *text, size_t size)
{
    (void)first;
    if (p->isolation[0])
        snprintf(text, size, "codecs run at isolation level %s", p->isolation);
    return FINDING_OK;
}

/* An agent that runs no training programs is as its owner wants it, so that is no warning. */
static enum finding_level check_trainers(const struct probed_host *p, const struct probed_host *first,
                                         char *text, size_t size)
{
    bool is_list = strcmp(p->trainers, "allowlist") == 0;

    (void)first;
    if (p->trainers[0] && !probed_host_runs_trainers(p))
        snprintf(text, size,
                 "it runs no training programs (--trainer); agent --trainers allowlist, or any, allows them");
    if (!probed_host_runs_trainers(p))
        return FINDING_OK;
    snprintf(text, size, "it runs %s at isolation level %s",
             is_list ? "the training programs on its list" : "any training program", p->trainer_isolation);
    if (!p->has_told_python)
        return FINDING_OK;
    if (!p->python[0]) {
        snprintf(text + strlen(text), size - strlen(text), ", and none in Python: %s", p->trainer_error);
        return FINDING_WARNING;
    }
    snprintf(text + strlen(text), size - strlen(text), ", with Python %s (%s), %s%s, %s%s, %s%s", p->python,
             p->trainer_python, p->numpy[0] ? "numpy " : "no numpy", p->numpy,
             p->torch[0] ? "torch " : "no torch", p->torch, p->gpus[0] ? "GPUs: " : "no GPU", p->gpus);
    return FINDING_OK;
}

/* " (::1, 127.0.0.1)", unless that is the name itself. */
static void list_addresses(char *text, size_t size, const struct addresses *a, const char *name)
{
    char one[ADDRESS_TEXT];
    size_t at = strlen(text);

    address_text(one, &a->of[0].at);
    if (a->n == 1 && strcmp(one, name) == 0)
        return;
    for (size_t i = 0; i < a->n; i++, at = strlen(text)) {
        address_text(one, &a->of[i].at);
        snprintf(text + at, size - at, "%s%s%s", i ? ", " : " (", one, i + 1 < a->n ? "" : ")");
    }
}

/* True if a socket that listens at `at` accepts connections to one of these addresses. "::" accepts those of
 * IPv4, too. */
static bool accepts_at(const char *at, const struct addresses *all)
{
    char one[ADDRESS_TEXT];

    if (strcmp(at, "::") == 0)
        return true;
    for (size_t i = 0; i < all->n; i++) {
        address_text(one, &all->of[i].at);
        one[strcspn(one, "%")] = '\0'; /* an agent reports no scope */
        if (strcmp(at, "0.0.0.0") == 0 ? all->of[i].at.ss_family == AF_INET : strcmp(at, one) == 0)
            return true;
    }
    return false;
}

/* A job tries each address of the name. A node resolves the name on its own machine, where it may have other
 * addresses, so only a loopback address is an error for certain. */
static enum finding_level check_data_plane(const struct probed_host *p, const struct probed_host *first,
                                           char *text, size_t size)
{
    const char *host = node_host(&p->node);
    bool is_local = strncmp(p->data_host, "127.", 4) == 0 || strcmp(p->data_host, "::1") == 0;
    struct addresses found;
    int rc;

    (void)first;
    if (!p->data_host[0])
        return FINDING_OK;
    snprintf(text, size, "its nodes listen at %s, and others connect to %s", p->data_host, host);
    rc = address_find(&found, host, 1);
    if (rc != 0) {
        snprintf(text + strlen(text), size - strlen(text), ", which has no address here: %s",
                 gai_strerror(rc));
        return FINDING_WARNING;
    }
    list_addresses(text, size, &found, host);
    if (accepts_at(p->data_host, &found))
        return FINDING_OK;
    snprintf(text + strlen(text), size - strlen(text), ", where its nodes do not listen");
    return is_local ? FINDING_ERROR : FINDING_WARNING;
}

static enum finding_level check_age(const struct probed_host *p, const struct probed_host *first, char *text,
                                    size_t size)
{
    (void)first;
    if (p->has_machine)
        return FINDING_OK;
    snprintf(text, size,
             "an agent of its version reports nothing about its machine; those checks are left out");
    return FINDING_WARNING;
}

static enum finding_level check_free_memory(const struct probed_host *p, const struct probed_host *first,
                                            char *text, size_t size)
{
    const struct machine *m = &p->machine;

    (void)first;
    snprintf(text, size, "%.0f processors, %.1f GiB of memory, of which %.1f GiB are free, %s", m->cpus,
             m->mem_bytes / GIB, m->mem_available_bytes / GIB, m->system);
    return m->mem_available_bytes < m->mem_bytes / 10 ? FINDING_WARNING : FINDING_OK;
}

/* The load of an agent that runs a job is no warning. */
static enum finding_level check_load(const struct probed_host *p, const struct probed_host *first, char *text,
                                     size_t size)
{
    const struct machine *m = &p->machine;

    (void)first;
    snprintf(text, size, "%.1f processes ran or waited in the last minute, for %.0f processors", m->load,
             m->cpus);
    return p->slots_free != 0 && m->load > m->cpus ? FINDING_WARNING : FINDING_OK;
}

static enum finding_level at_least(char *text, size_t size, double has, double needs, const char *what)
{
    if (isnan(has))
        return FINDING_OK;
    if (isinf(has))
        snprintf(text, size, "no limit of %s", what);
    else
        snprintf(text, size, "%.0f %s", has, what);
    return has < needs ? FINDING_WARNING : FINDING_OK;
}

/* A runner may open 1,024 files; the agent and its connections need as many again. */
static enum finding_level check_files(const struct probed_host *p, const struct probed_host *first,
                                      char *text, size_t size)
{
    const struct machine *m = &p->machine;

    (void)first;
    return at_least(text, size, fmin(m->open_files, isnan(m->file_max) ? INFINITY : m->file_max), 2048,
                    "open files for a process");
}

static enum finding_level check_processes(const struct probed_host *p, const struct probed_host *first,
                                          char *text, size_t size)
{
    (void)first;
    return at_least(text, size, p->machine.processes, 256, "processes and threads for its user");
}

/* Each agent has an inotify instance; without one it polls its jobs once a second (agent/base/notify.h). */
static enum finding_level check_inotify(const struct probed_host *p, const struct probed_host *first,
                                        char *text, size_t size)
{
    const struct machine *m = &p->machine;

    (void)first;
    if (isnan(m->inotify_instances))
        return FINDING_OK;
    snprintf(text, size, "%.0f inotify instances, %.0f watches for a user", m->inotify_instances,
             m->inotify_watches);
    return m->inotify_instances < 64 || m->inotify_watches < 1024 ? FINDING_WARNING : FINDING_OK;
}

static enum finding_level check_pipes(const struct probed_host *p, const struct probed_host *first,
                                      char *text, size_t size)
{
    double pages = p->machine.pipe_pages;

    (void)first;
    return at_least(text, size, pages == 0 ? INFINITY : pages, 1024, "pages in pipes for a user");
}

/* Every node connects to all nodes before it at once. */
static enum finding_level check_backlog(const struct probed_host *p, const struct probed_host *first,
                                        char *text, size_t size)
{
    const struct machine *m = &p->machine;

    (void)first;
    if (isnan(m->listen_backlog))
        return FINDING_OK;
    snprintf(text, size, "%.0f connections may wait to be accepted, %.0f for their handshake",
             m->listen_backlog, m->syn_backlog);
    return m->listen_backlog < 128 || m->syn_backlog < 128 ? FINDING_WARNING : FINDING_OK;
}

static enum finding_level check_shared_memory(const struct probed_host *p, const struct probed_host *first,
                                              char *text, size_t size)
{
    bool can = p->machine.shares_memory > 0;

    (void)first;
    snprintf(text, size,
             can ? "nodes of one job on this machine share memory"
                 : "nodes of one job on this machine cannot share memory, and use TCP");
    return can ? FINDING_OK : FINDING_WARNING;
}

/* vm.overcommit_memory=2: an allocation may fail although memory is free, because BLAS reserves more than it
 * uses. */
static enum finding_level check_overcommit(const struct probed_host *p, const struct probed_host *first,
                                           char *text, size_t size)
{
    double how = p->machine.overcommit;

    (void)first;
    if (isnan(how))
        return FINDING_OK;
    snprintf(text, size, "memory may%s be reserved beyond what there is (vm.overcommit_memory=%.0f)",
             how == 2 ? " not" : "", how);
    return how == 2 ? FINDING_WARNING : FINDING_OK;
}

static enum finding_level check_compiler(const struct probed_host *p, const struct probed_host *first,
                                         char *text, size_t size)
{
    bool has = p->machine.has_compiler > 0;

    (void)first;
    snprintf(text, size,
             has ? "codecs sent as source are compiled with cc"
                 : "there is no cc: a codec must come as an object for this kind of machine");
    return has ? FINDING_OK : FINDING_WARNING;
}

/* The checks, in the order of their findings. */
static const struct doctor_check {
    const char *name;
    /* Writes one sentence, without a full stop, and returns how bad it is; "": there is nothing to say.
     * `first`: the first host that has answered, with which the others must agree. */
    enum finding_level (*look)(const struct probed_host *p, const struct probed_host *first, char *text,
                               size_t size);
    const char *fix; /* printed where the level is not ok */
    bool of_machine; /* left out where an older agent reports nothing about its machine */
} checks[] = {
    {"reached", check_reached, NULL, false},
    {"access", check_access, NULL, false},
    {"scope", check_scope, "On that machine: agent token add NAME --scope submit, or agent token invite.",
     false},
    {"version", check_version, "Install the same version of psgd on all machines.", false},
    {"age", check_age, "Install the version of this job_submit there.", false},
    {"runner", check_runner, "Run ./setup.sh and make on that machine, and restart its agent.", false},
    {"kernels", check_kernels,
     "Set OPENBLAS_CORETYPE to the same kernels for all agents, or accept the difference.", false},
    {"data plane", check_data_plane,
     "Start the agent with --data-bind ADDRESS, an address that the others reach.", false},
    {"clock", check_clock, "Run a time service there: timedatectl set-ntp true.", false},
    {"slot", check_slot, "Wait, or cancel that job: job_submit list.", false},
    {"disk", check_disk, "Delete files, or start the agent with --dir on a larger disk.", false},
    {"isolation", check_isolation, NULL, false},
    {"trainers", check_trainers,
     "Install python3 there, or start its agent with --trainer-python FILE, where programs are in Python.",
     false},
    {"memory", check_free_memory, "Stop other programs there.", true},
    {"load", check_load,
     "Stop other programs there, or leave this machine out: every step waits for the slowest.", true},
    {"files", check_files, "Start the agent after `ulimit -n 65536`, or with LimitNOFILE=65536 in its unit.",
     true},
    {"processes", check_processes,
     "Start the agent after `ulimit -u 4096`, or with TasksMax=4096 in its unit.", true},
    {"inotify", check_inotify,
     "sysctl -w fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=65536", true},
    {"pipes", check_pipes, "sysctl -w fs.pipe-user-pages-soft=16384", true},
    {"backlog", check_backlog, "sysctl -w net.core.somaxconn=4096 net.ipv4.tcp_max_syn_backlog=4096", true},
    {"shared memory", check_shared_memory, "Use Linux 5.1 or later, without a filter of memfd_create.", true},
    {"overcommit", check_overcommit, "sysctl -w vm.overcommit_memory=0", true},
    {"compiler", check_compiler, "Install gcc or clang there.", true},
};

void probed_host_check(struct probed_host *p, const struct probed_host *first)
{
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        const struct doctor_check *c = &checks[i];
        char text[FINDING_TEXT] = "";
        enum finding_level l;

        if (c->of_machine && !p->has_machine)
            continue;
        l = c->look(p, first, text, sizeof text);
        if (text[0])
            probed_host_note(p, l, c->name, c->fix, "%s", text);
        if (l == FINDING_ERROR && !p->code)
            p->code = ERR_REFUSED;
    }
}
