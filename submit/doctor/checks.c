#include "submit/doctor/checks.h"

#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "codecs/codec_events.h"
#include "shared/base/address.h"
#include "submit/terminal/text.h"

static const double DISK_LOW = 256 << 20, DISK_NONE = 16 << 20, CLOCK_FAR_S = 60;

static enum level check_reached(const struct probed_host *p, const struct probed_host *first, char *text,
                                size_t size)
{
    (void)first;
    if (p->is_here)
        return LEVEL_OK;
    snprintf(text, size, "it has answered in %.1f ms, the connection included", p->connect_s * 1e3);
    if (!isnan(p->round_trip_s))
        snprintf(text + strlen(text), size - strlen(text), "; a round trip takes %.1f ms",
                 p->round_trip_s * 1e3);
    return LEVEL_OK;
}

static enum level check_access(const struct probed_host *p, const struct probed_host *first, char *text,
                               size_t size)
{
    const struct job_node *n = &p->node;

    (void)first;
    if (p->is_here)
        return LEVEL_OK;
    snprintf(text, size, "%s, token from %s",
             node_has_ca(n) ? "its certificate is one of --ca"
             : n->pin[0]    ? "its key is the pinned one"
                            : "without TLS",
             p->has_token              ? n->token_sources
             : n->credentials->cert[0] ? "nowhere, as --cert stands for it"
                                       : "nowhere, and it requires none");
    return LEVEL_OK;
}

static enum level check_scope(const struct probed_host *p, const struct probed_host *first, char *text,
                              size_t size)
{
    (void)first;
    if (p->is_here || !p->scope[0])
        return LEVEL_OK;
    snprintf(text, size, "it grants this user scope %s", p->scope);
    return strcmp(p->scope, "read") == 0 ? LEVEL_ERROR : LEVEL_OK;
}

/* Programs of one version fit in any case. */
static enum level check_version(const struct probed_host *p, const struct probed_host *first, char *text,
                                size_t size)
{
    snprintf(text, size, "psgd %s", p->version);
    if (!isnan(p->codec_abi))
        snprintf(text + strlen(text), size - strlen(text), ", codecs of ABI %.0f", p->codec_abi);
    if (!isnan(p->frame_version))
        snprintf(text + strlen(text), size - strlen(text), ", frames of version %.0f", p->frame_version);
    if (!isnan(p->codec_abi) && p->codec_abi != CODEC_ABI) {
        snprintf(text + strlen(text), size - strlen(text), "; this job_submit makes codecs of ABI %d",
                 CODEC_ABI);
        return LEVEL_ERROR;
    }
    if (!isnan(p->frame_version) && !isnan(first->frame_version) &&
        p->frame_version != first->frame_version) {
        snprintf(text + strlen(text), size - strlen(text),
                 "; node %d has version %.0f, so they cannot connect", first->node.at.node,
                 first->frame_version);
        return LEVEL_ERROR;
    }
    if (strcmp(p->version, PSGD_VERSION) == 0)
        return LEVEL_OK;
    snprintf(text + strlen(text), size - strlen(text), "; this job_submit is %s", PSGD_VERSION);
    return LEVEL_WARNING;
}

static enum level check_runner(const struct probed_host *p, const struct probed_host *first, char *text,
                               size_t size)
{
    (void)first;
    if (!p->runner_error[0])
        return LEVEL_OK;
    snprintf(text, size, "%s", p->runner_error);
    return LEVEL_ERROR;
}

/* "…, 4 threads" is not part of what decides the bits. */
static size_t kernels_of(const char *engine)
{
    const char *last = strrchr(engine, ',');

    return last ? (size_t)(last - engine) : strlen(engine);
}

static enum level check_kernels(const struct probed_host *p, const struct probed_host *first, char *text,
                                size_t size)
{
    size_t n = kernels_of(p->engine), n_first = kernels_of(first->engine);

    if (!p->engine[0])
        return LEVEL_OK;
    snprintf(text, size, "it computes with %.*s", (int)n, p->engine);
    if (p->is_here || !first->engine[0] || (n == n_first && strncmp(p->engine, first->engine, n) == 0))
        return LEVEL_OK;
    snprintf(text + strlen(text), size - strlen(text),
             "; node %d with %.*s: their last bits differ, so no run repeats exactly elsewhere",
             first->node.at.node, (int)n_first, first->engine);
    return LEVEL_WARNING;
}

static enum level check_clock(const struct probed_host *p, const struct probed_host *first, char *text,
                              size_t size)
{
    double off = fabs(p->clock_ahead_s);

    (void)first;
    if (isnan(off))
        return LEVEL_OK;
    snprintf(text, size, "its clock is %.3f s %s this machine's; no result depends on it", off,
             p->clock_ahead_s < 0 ? "behind" : "ahead of");
    return off > CLOCK_FAR_S ? LEVEL_WARNING : LEVEL_OK;
}

static enum level check_slot(const struct probed_host *p, const struct probed_host *first, char *text,
                             size_t size)
{
    (void)first;
    if (isnan(p->slots_free))
        return LEVEL_OK;
    snprintf(text, size,
             p->slots_free > 0 ? "it is free for a job"
                               : "it runs another job, behind which a new one waits");
    return p->slots_free > 0 ? LEVEL_OK : LEVEL_WARNING;
}

static enum level check_disk(const struct probed_host *p, const struct probed_host *first, char *text,
                             size_t size)
{
    char amount[TEXT_AMOUNT];

    (void)first;
    if (isnan(p->disk_free_bytes))
        return LEVEL_OK;
    text_bytes(amount, (uint64_t)fmax(p->disk_free_bytes, 0));
    snprintf(text, size, "%s of its disk are left for packages and results", amount);
    return p->disk_free_bytes < DISK_NONE  ? LEVEL_ERROR
           : p->disk_free_bytes < DISK_LOW ? LEVEL_WARNING
                                           : LEVEL_OK;
}

static enum level check_isolation(const struct probed_host *p, const struct probed_host *first, char *text,
                                  size_t size)
{
    (void)first;
    if (p->isolation[0])
        snprintf(text, size, "codecs run at isolation level %s", p->isolation);
    return LEVEL_OK;
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

/* Whether a socket at `at` takes connections to one of these addresses. "::" takes those of IPv4, too. */
static bool takes(const char *at, const struct addresses *all)
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

/* A job tries each address of the name. The nodes resolve it where they run, to others perhaps: only what
 * does not leave a machine is an error for certain. */
static enum level check_data_plane(const struct probed_host *p, const struct probed_host *first, char *text,
                                   size_t size)
{
    const char *host = node_host(&p->node);
    bool is_local = strncmp(p->data_host, "127.", 4) == 0 || strcmp(p->data_host, "::1") == 0;
    struct addresses found;
    int rc;

    (void)first;
    if (!p->data_host[0])
        return LEVEL_OK;
    snprintf(text, size, "its nodes listen at %s, and others connect to %s", p->data_host, host);
    rc = address_find(&found, host, 1);
    if (rc != 0) {
        snprintf(text + strlen(text), size - strlen(text), ", which has no address here: %s",
                 gai_strerror(rc));
        return LEVEL_WARNING;
    }
    list_addresses(text, size, &found, host);
    if (takes(p->data_host, &found))
        return LEVEL_OK;
    snprintf(text + strlen(text), size - strlen(text), ", where they do not listen");
    return is_local ? LEVEL_ERROR : LEVEL_WARNING;
}

static enum level check_age(const struct probed_host *p, const struct probed_host *first, char *text,
                            size_t size)
{
    (void)first;
    if (p->has_machine)
        return LEVEL_OK;
    snprintf(text, size,
             "an agent of its version reports nothing about its machine; those checks are left out");
    return LEVEL_WARNING;
}

static const struct doctor_check checks[] = {
    {"reached", check_reached, NULL, false},
    {"access", check_access, NULL, false},
    {"scope", check_scope, "On that machine: agent token add NAME --scope submit, or agent token invite.",
     false},
    {"version", check_version, "Install the same version of psgd on all machines.", false},
    {"age", check_age, "Install the version of this job_submit there.", false},
    {"runner", check_runner, "Run ./setup.sh and make on that machine, and restart its agent.", false},
    {"kernels", check_kernels, "Set OPENBLAS_CORETYPE to the same kernels for all agents, or accept it.",
     false},
    {"data plane", check_data_plane,
     "Start the agent with --data-bind ADDRESS, an address that the others reach.", false},
    {"clock", check_clock, "Run a time service there: timedatectl set-ntp true.", false},
    {"slot", check_slot, "Wait, or cancel that job: job_submit list.", false},
    {"disk", check_disk, "Delete files, or start the agent with --dir on a larger disk.", false},
    {"isolation", check_isolation, NULL, false},
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

void checks_run(struct probed_host *p, const struct probed_host *first)
{
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        const struct doctor_check *c = &checks[i];
        char text[FINDING_TEXT] = "";
        enum level l;

        if (c->of_machine && !p->has_machine)
            continue;
        l = c->look(p, first, text, sizeof text);
        if (text[0])
            probed_host_note(p, l, c->name, c->fix, "%s", text);
        if (l == LEVEL_ERROR && !p->code)
            p->code = ERR_REFUSED;
    }
}
