#include "agent/api/process_use.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static double cpu_s(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_SELF, &u) < 0)
        return NAN;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Without the descriptor that this count takes. */
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

void process_use_look(struct process_use *s)
{
    struct rlimit files;

    *s = (struct process_use){.cpu_s = cpu_s(), .open_files = count_files(), .max_open_files = NAN};
    look_at_memory(s);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY)
        s->max_open_files = (double)files.rlim_cur;
}
