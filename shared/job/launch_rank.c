#include "shared/job/launch_rank.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Launchers in the order in which their variables count:
 *   torchrun    first, where TORCHELASTIC_RUN_ID shows that it started this process: if srun or mpirun has
 *               started torchrun, all its processes on a machine inherit the same variables of those
 *   Slurm       after the others: all processes of an mpirun in a batch script have the script's variables
 *   Kubernetes  last: it sets its index in each container, and a launcher may run in there */
static const struct launcher {
    const char *name, *rank, *size; /* size NULL: it says none */
    const char *mark;               /* a further variable that it sets; NULL: none is needed */
    bool is_mpi;
    int class; /* launchers of one class must agree; a lower class counts before */
} launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", false, 0},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, true, 1},
    {"PMI", "PMI_RANK", "PMI_SIZE", NULL, true, 1},
    {"PMIx", "PMIX_RANK", NULL, NULL, true, 1},
    {"RANK", "RANK", "WORLD_SIZE", NULL, false, 1},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", NULL, false, 2},
    {"Kubernetes", "JOB_COMPLETION_INDEX", NULL, NULL, false, 3},
};
enum { N_LAUNCHERS = sizeof launchers / sizeof *launchers };

static int parse(int *out, const char *name, const char *text, struct err *e)
{
    char *end;
    long v = strtol(text, &end, 10);

    if (!text[0] || *end || v < 0 || v > INT_MAX)
        return err_set(e, ERR_CONFIG, "%s is \"%.40s\", which is no number of a process", name, text);
    *out = (int)v;
    return 0;
}

/* What the launcher has set; false: nothing. */
static bool read_launcher(struct launch_rank *out, const struct launcher *l, const char *(*get)(const char *),
                          struct err *e)
{
    const char *rank = get(l->rank), *size = l->size ? get(l->size) : NULL;

    *out = (struct launch_rank){.rank = -1, .size = -1, .origin = l->rank};
    if (!rank || (l->mark && !get(l->mark)) || parse(&out->rank, l->rank, rank, e) < 0)
        return false;
    return !size || parse(&out->size, l->size, size, e) == 0;
}

static int not_clear(struct err *e)
{
    char list[256] = "";

    for (int i = 0; i < N_LAUNCHERS; i++)
        if (!launchers[i].mark)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", list[0] ? ", " : "",
                     launchers[i].rank);
    err_set(
        e, ERR_CONFIG,
        "nothing says which process of the job this is: --rank is not given, and no launcher has set one of "
        "the variables %s",
        list);
    return err_hint(e, "Start it with mpirun, srun or torchrun, or each process with --rank K, from 0.");
}

static const char *describe(char *out, size_t size, const struct launch_rank *r)
{
    if (r->size >= 0)
        snprintf(out, size, "%s is %d of %d", r->origin, r->rank, r->size);
    else
        snprintf(out, size, "%s is %d", r->origin, r->rank);
    return out;
}

/* PMIx says no number of processes, and srun says that of its step. The processes of mpirun may have that of
 * the srun that has started its daemons, but have Open MPI's, too. */
static int add_step_size(struct launch_rank *r, const char *(*get)(const char *), struct err *e)
{
    const char *rank = get("SLURM_PROCID"), *size = get("SLURM_STEP_NUM_TASKS");
    int of_step;

    if (r->size >= 0 || !rank || !size || strcmp(r->origin, "PMIX_RANK") != 0)
        return 0;
    if (parse(&of_step, "SLURM_PROCID", rank, e) < 0 || of_step != r->rank)
        return e->code;
    return parse(&r->size, "SLURM_STEP_NUM_TASKS", size, e);
}

int launch_rank_find(struct launch_rank *out, int n_nodes, int rank, int size,
                     const char *(*get)(const char *name), struct err *e)
{
    struct launch_rank found = {.rank = -1, .size = -1}, r;
    int class = 0;

    *e = (struct err){0};
    if (rank >= 0) {
        *out = (struct launch_rank){.rank = rank, .size = size, .origin = "--rank"};
        return 0;
    }
    for (int i = 0; i < N_LAUNCHERS; i++) {
        const struct launcher *l = &launchers[i];

        if (found.rank >= 0 && l->class > class)
            break;
        if (!read_launcher(&r, l, get, e)) {
            if (e->code < 0)
                return e->code;
            continue;
        }
        if (found.rank < 0) {
            found = r;
            class = l->class;
        } else if (found.rank != r.rank || (found.size >= 0 && r.size >= 0 && found.size != r.size)) {
            char one[96], other[96];

            err_set(e, ERR_CONFIG, "launchers disagree on which process of the job this is: %s, and %s",
                    describe(one, sizeof one, &found), describe(other, sizeof other, &r));
            return err_hint(e,
                            "Unset the variables of the launcher that has not started it, or give --rank.");
        } else if (found.size < 0) {
            found.size = r.size;
        }
    }
    if (found.rank >= 0 && add_step_size(&found, get, e) < 0)
        return e->code;
    if (found.rank < 0 && n_nodes == 1)
        found = (struct launch_rank){.rank = 0, .size = -1, .origin = "the job's only node"};
    if (found.rank < 0)
        return not_clear(e);
    if (size >= 0 && found.size >= 0 && size != found.size)
        return err_set(e, ERR_CONFIG, "--size is %d, and by %s there are %d processes", size, found.origin,
                       found.size);
    if (size >= 0)
        found.size = size;
    *out = found;
    return 0;
}

int launch_rank_check(const struct launch_rank *r, int n_nodes, struct err *e)
{
    if (r->size >= 0 && r->size != n_nodes)
        err_set(e, ERR_CONFIG, "the job has %d node%s, a process for each, and by %s there %s %d process%s",
                n_nodes, n_nodes == 1 ? "" : "s", r->origin, r->size == 1 ? "is" : "are", r->size,
                r->size == 1 ? "" : "es");
    else if (r->rank >= n_nodes)
        err_set(e, ERR_CONFIG, "by %s this is process %d, and the job has %d process%s, numbered from 0",
                r->origin, r->rank, n_nodes, n_nodes == 1 ? "" : "es");
    else
        return 0;
    return err_hint(e, "Start %d process%s, servers included, as with mpirun -n %d or srun -n %d.", n_nodes,
                    n_nodes == 1 ? "" : "es", n_nodes, n_nodes);
}

/* The number of this srun in its job; NULL: no srun has started this process. A process of mpirun or torchrun
 * may have that of the srun that has started its launcher's daemon, on some machines only. */
static const char *srun_step(const char *(*get)(const char *name))
{
    return get("OMPI_COMM_WORLD_RANK") || get("RANK") ? NULL : get("SLURM_STEP_ID");
}

/* Variables that name a launch, by the variable of the launcher's rank. Open MPI's second one has mpirun's
 * process number, which may come again; its first one is random. */
static const struct {
    const char *rank, *name, *no_name; /* no_name: a value of `name` that is none */
} names[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_MCA_orte_precondition_transports", NULL},
    {"OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE", NULL},
    {"RANK", "TORCHELASTIC_RUN_ID", "none"},
};

static const char *find_name(const char *(*get)(const char *name))
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *name = get(names[i].rank) ? get(names[i].name) : NULL;

        if (name && name[0] && !(names[i].no_name && strcmp(name, names[i].no_name) == 0))
            return name;
    }
    return NULL;
}

void launch_name(char *out, size_t size, const char *(*get)(const char *name))
{
    const char *job = get("SLURM_JOB_ID"), *step = srun_step(get);
    bool is_first = !step || strcmp(step, "0") == 0;

    if (!job) {
        const char *name = find_name(get);

        snprintf(out, size, "%s", name ? name : "");
        for (char *c = out; *c; c++)
            *c = *c == '/' || *c <= ' ' ? '_' : *c;
        return;
    }
    snprintf(out, size, "%s%s%s", job, is_first ? "" : ".", is_first ? "" : step);
}

void launch_identity(char *out, size_t size, const char *(*get)(const char *name))
{
    const char *job = get("SLURM_JOB_ID"), *step = srun_step(get), *restarts = get("SLURM_RESTART_COUNT");

    out[0] = '\0';
    if (job && step)
        snprintf(out, size, "%s.%s.%s", job, step, restarts ? restarts : "0");
    if (out[0] || !find_name(get))
        return;
    restarts = get("TORCHELASTIC_RESTART_COUNT");
    snprintf(out, size, "%s.%s", find_name(get), restarts ? restarts : "0");
}

static size_t without_restarts(const char *identity)
{
    const char *dot = strrchr(identity, '.');

    return dot ? (size_t)(dot - identity) : strlen(identity);
}

bool launch_is_other(const char *one, const char *other)
{
    const size_t n = without_restarts(one);

    return one[0] && other[0] && (n != without_restarts(other) || memcmp(one, other, n) != 0);
}

bool launch_is_here(const char *(*get)(const char *name))
{
    static const struct {
        const char *all, *here;
    } sizes[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                 {"PMI_SIZE", "MPI_LOCALNRANKS"},
                 {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *all = get(sizes[i].all), *here = get(sizes[i].here);

        if (all && here && strcmp(all, here) == 0)
            return true;
    }
    return false;
}

int launch_rank_check_mpi(const struct launch_rank *r, const char *(*get)(const char *name), struct err *e)
{
    struct launch_rank by_mpi;

    *e = (struct err){0};
    for (int i = 0; i < N_LAUNCHERS; i++)
        if (launchers[i].is_mpi && read_launcher(&by_mpi, &launchers[i], get, e) && by_mpi.rank == r->rank)
            return 0;
    err_set(e, ERR_CONFIG,
            "the job has --transport mpi, and no launcher of MPI has started this process as number %d",
            r->rank);
    return err_hint(e, "Start it with mpirun, or with srun --mpi=pmi2 or --mpi=pmix; in a batch script "
                       "SLURM_MPI_TYPE=pmi2 or pmix does the same.");
}
