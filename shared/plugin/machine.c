#include "shared/plugin/machine.h"

#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "shared/base/compat.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "shared/plugin/compile.h"

enum { TEXT_MAX = 4096 };

/* A number of the kernel: a file whose first word it is. */
#define SETTINGS(S)                                                                                          \
    S(inotify_instances, "/proc/sys/fs/inotify/max_user_instances")                                          \
    S(inotify_watches, "/proc/sys/fs/inotify/max_user_watches")                                              \
    S(pipe_pages, "/proc/sys/fs/pipe-user-pages-soft")                                                       \
    S(listen_backlog, "/proc/sys/net/core/somaxconn")                                                        \
    S(syn_backlog, "/proc/sys/net/ipv4/tcp_max_syn_backlog")                                                 \
    S(file_max, "/proc/sys/fs/file-max")                                                                     \
    S(overcommit, "/proc/sys/vm/overcommit_memory")                                                          \
    S(load, "/proc/loadavg")

static const struct {
    const char *path;
    size_t at;
} settings[] = {
#define SETTING(member, path) {path, offsetof(struct machine, member)},
    SETTINGS(SETTING)
#undef SETTING
};

static const struct {
    const char *key;
    size_t at;
} fields[] = {
#define FIELD(member)                                                                                        \
    {                                                                                                        \
#member, offsetof(struct machine, member)                                                            \
    }
    FIELD(cpus),       FIELD(load),           FIELD(mem_bytes),         FIELD(mem_available_bytes),
    FIELD(open_files), FIELD(processes),      FIELD(inotify_instances), FIELD(inotify_watches),
    FIELD(pipe_pages), FIELD(listen_backlog), FIELD(syn_backlog),       FIELD(file_max),
    FIELD(overcommit), FIELD(shares_memory),  FIELD(has_compiler),
#undef FIELD
};

enum { N_SETTINGS = sizeof settings / sizeof *settings, N_FIELDS = sizeof fields / sizeof *fields };

static double *number_at(struct machine *m, size_t at)
{
    return (double *)(void *)((char *)m + at);
}

/* The file's text; "" if it cannot be read. */
static const char *read_text(char out[TEXT_MAX], const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, TEXT_MAX - 1) : 0;

    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    return out;
}

static double number_of(const char *text)
{
    char *end;
    double v = strtod(text, &end);

    return end != text ? v : NAN;
}

static double available_memory(void)
{
    static const char key[] = "MemAvailable:";
    char text[TEXT_MAX];
    const char *line = strstr(read_text(text, "/proc/meminfo"), key);

    return line ? number_of(line + strlen(key)) * 1024 : NAN;
}

static double limit_of(int resource, bool hard)
{
    struct rlimit r;

    if (getrlimit((__rlimit_resource_t)resource, &r) < 0)
        return NAN;
    if (hard)
        r.rlim_cur = r.rlim_max;
    return r.rlim_cur == RLIM_INFINITY ? INFINITY : (double)r.rlim_cur;
}

static bool can_seal_memory(void)
{
    int fd = memfd_create("psgd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool can = fd >= 0 && ftruncate(fd, 1) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0;

    if (fd >= 0)
        close(fd);
    return can;
}

void machine_look(struct machine *m)
{
    char text[TEXT_MAX];
    struct utsname u;

    *m = (struct machine){.cpus = (double)sysconf(_SC_NPROCESSORS_ONLN),
                          .mem_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE),
                          .mem_available_bytes = available_memory(),
                          .open_files = limit_of(RLIMIT_NOFILE, true),
                          .processes = limit_of(RLIMIT_NPROC, false),
                          .shares_memory = can_seal_memory(),
                          .has_compiler = compile_is_there("cc")};
    for (size_t i = 0; i < N_SETTINGS; i++)
        *number_at(m, settings[i].at) = number_of(read_text(text, settings[i].path));
    if (uname(&u) == 0)
        snprintf(m->system, sizeof m->system, "%.40s %.60s %.40s", u.sysname, u.release, u.machine);
}

json_t *machine_json(const struct machine *m)
{
    struct machine copy = *m;
    json_t *o = json_object();

    json_object_set_new(o, "system", json_text(m->system, sizeof m->system));
    for (size_t i = 0; i < N_FIELDS; i++) {
        double v = *number_at(&copy, fields[i].at);

        json_object_set_new(o, fields[i].key, json_real_or_null(isinf(v) ? -1 : v));
    }
    return o;
}

void machine_parse(struct machine *m, const json_t *doc)
{
    const char *system = json_string_value(json_object_get(doc, "system"));

    *m = (struct machine){0};
    snprintf(m->system, sizeof m->system, "%s", system ? system : "");
    utf8_clean(m->system, strlen(m->system), false);
    for (size_t i = 0; i < N_FIELDS; i++) {
        const json_t *v = json_object_get(doc, fields[i].key);

        *number_at(m, fields[i].at) = !json_is_number(v)         ? NAN
                                      : json_number_value(v) < 0 ? INFINITY
                                                                 : json_number_value(v);
    }
}
