#include "shared/base/memory.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* Control groups of version 2 and of version 1 (cgroups(7)): a machine has one of them, or both. */
static const struct kind {
    const char *controller; /* as in /proc/self/cgroup */
    const char *root, *limit, *usage;
    const char *cache[2]; /* in memory.stat: page cache, reclaimed before a process is killed */
} kinds[] = {
    {"", "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file %lf", "active_file %lf"}},
    {"memory",
     "/sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file %lf", "total_active_file %lf"}},
};

enum { KEPT_MAX = 64 };

/* Files that stay open once memory_keep_open() has been called. */
static struct {
    bool is_on;
    size_t n;
    struct kept_file {
        char *path;
        FILE *file; /* NULL: it cannot be opened */
    } files[KEPT_MAX];
} kept;

/* Opens a file, or returns the kept one. */
static FILE *open_kept(const char *path)
{
    struct kept_file *k = kept.files, *end = kept.files + kept.n;

    if (!kept.is_on)
        return fopen(path, "re");
    while (k < end && strcmp(k->path, path) != 0)
        k++;
    if (k == end) {
        char *copy = kept.n < KEPT_MAX ? strdup(path) : NULL;

        if (!copy)
            return NULL;
        *k = (struct kept_file){.path = copy, .file = fopen(path, "re")};
        kept.n++;
    }
    if (k->file) {
        rewind(k->file);
        fflush(k->file); /* rewind() keeps the bytes that were read before */
    }
    return k->file;
}

static void close_kept(FILE *f)
{
    if (f && !kept.is_on)
        fclose(f);
}

/* Returns the number in the file's first line of this form, or `otherwise`. */
static double number_in(const char *path, const char *form, double otherwise)
{
    FILE *f = open_kept(path);
    double number = otherwise;
    char line[256];

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, form, &number) == 1)
            break;
    close_kept(f);
    return number;
}

static double number_of_group(const struct kind *k, const char *group, const char *file, const char *form,
                              double otherwise)
{
    char path[PATH_MAX + 128];

    snprintf(path, sizeof path, "%s%s/%s", k->root, group, file);
    return number_in(path, form, otherwise);
}

/* Returns the least remainder of the group and its parents. In a container the name may be relative to the
 * host and not visible: then only the last of them, the container's root, has values. */
static double left_in_groups(const struct kind *k, char *group)
{
    double least = HUGE_VAL;

    for (;;) {
        double limit = number_of_group(k, group, k->limit, "%lf", HUGE_VAL); /* "max": none */
        double used = number_of_group(k, group, k->usage, "%lf", 0);
        double cache = number_of_group(k, group, "memory.stat", k->cache[0], 0) +
                       number_of_group(k, group, "memory.stat", k->cache[1], 0);
        char *slash = strrchr(group, '/');

        least = fmin(least, fmax(0, limit - used + cache));
        if (!slash)
            return least;
        *slash = '\0';
    }
}

static double left_in_all_groups(void)
{
    FILE *f = open_kept("/proc/self/cgroup"); /* lines of ID:CONTROLLERS:GROUP */
    char line[PATH_MAX + 64], controller[64], group[PATH_MAX];
    double least = HUGE_VAL;

    while (f && fgets(line, sizeof line, f)) {
        group[0] = controller[0] = '\0';
        if (sscanf(line, "%*d::%4095s", group) != 1 &&
            sscanf(line, "%*d:%63[^:]:%4095s", controller, group) != 2)
            continue;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (strcmp(controller, kinds[i].controller) == 0)
                least = fmin(least, left_in_groups(&kinds[i], group));
    }
    close_kept(f);
    return least;
}

/* `used`: the form of the line in /proc/self/status with the used kilobytes. */
static double left_of(struct rlimit most, const char *used)
{
    if (most.rlim_cur == RLIM_INFINITY)
        return HUGE_VAL;
    return fmax(0, (double)most.rlim_cur - 1024 * number_in("/proc/self/status", used, 0));
}

/* The remainder of the limits on address space and on private data (setrlimit(2)). */
static double left_in_limits(void)
{
    struct rlimit space = {RLIM_INFINITY, RLIM_INFINITY}, data = space;

    getrlimit(RLIMIT_AS, &space);
    getrlimit(RLIMIT_DATA, &data);
    return fmin(left_of(space, "VmSize: %lf kB"), left_of(data, "VmData: %lf kB"));
}

double memory_shared(void)
{
    double machine = number_in("/proc/meminfo", "MemAvailable: %lf kB", HUGE_VAL) * 1024;

    return fmin(machine, left_in_all_groups());
}

double memory_available(void)
{
    return fmin(memory_shared(), left_in_limits());
}

void memory_keep_open(void)
{
    kept.is_on = true;
    memory_available();
}
