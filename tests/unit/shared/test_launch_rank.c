#include "shared/job/launch_rank.h"

#include "tests/unit/unit.h"

static const char *const *now; /* the environment: NAME, VALUE, ..., NULL */

static const char *get(const char *name)
{
    for (const char *const *v = now; *v; v += 2)
        if (strcmp(*v, name) == 0)
            return v[1];
    return NULL;
}

static struct launch_rank find(const char *const *environment, int rank, int size)
{
    struct launch_rank r = {.rank = -1};
    struct err e;

    now = environment;
    assert_int_equal(launch_rank_find(&r, 2, rank, size, get, &e), 0);
    return r;
}

static void assert_found(const char *const *environment, int rank, int size, const char *origin)
{
    struct launch_rank r = find(environment, -1, -1);

    assert_int_equal(r.rank, rank);
    assert_int_equal(r.size, size);
    assert_string_equal(r.origin, origin);
}

/* *e: why it is refused. */
static void refuse(const char *const *environment, int rank, int size, struct err *e)
{
    struct launch_rank r;

    now = environment;
    assert_int_equal(launch_rank_find(&r, 2, rank, size, get, e), ERR_CONFIG);
}

TEST(each_launcher_says_which_process_this_is)
{
    static const struct {
        const char *environment[8];
        int rank, size;
        const char *origin;
    } cases[] = {
        {{"OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "4", NULL}, 3, 4, "OMPI_COMM_WORLD_RANK"},
        {{"PMI_RANK", "1", "PMI_SIZE", "2", NULL}, 1, 2, "PMI_RANK"},
        {{"PMIX_RANK", "5", NULL}, 5, -1, "PMIX_RANK"},
        {{"RANK", "0", "WORLD_SIZE", "2", NULL}, 0, 2, "RANK"},
        {{"SLURM_PROCID", "7", "SLURM_NTASKS", "8", NULL}, 7, 8, "SLURM_PROCID"},
        {{"JOB_COMPLETION_INDEX", "2", NULL}, 2, -1, "JOB_COMPLETION_INDEX"},
        {{"OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2", "PMIX_RANK", "1", NULL},
         1,
         2,
         "OMPI_COMM_WORLD_RANK"},
        {{"PMIX_RANK", "1", "SLURM_PROCID", "1", "SLURM_STEP_NUM_TASKS", "2", NULL}, 1, 2, "PMIX_RANK"},
        {{"PMIX_RANK", "1", "SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "2", NULL}, 1, -1, "PMIX_RANK"},
        {{"PMIX_RANK", "1", "PMI_RANK", "1", "PMI_SIZE", "2", NULL}, 1, 2, "PMI_RANK"},
    };

    for (size_t i = 0; i < N_OF(cases); i++)
        assert_found(cases[i].environment, cases[i].rank, cases[i].size, cases[i].origin);
}

/* The script of a batch job has Slurm's variables, and hands them on to all processes of its mpirun. */
TEST(mpirun_counts_before_the_slurm_job_that_it_runs_in)
{
    static const char *const inside[] = {"SLURM_PROCID",
                                         "0",
                                         "SLURM_NTASKS",
                                         "1",
                                         "OMPI_COMM_WORLD_RANK",
                                         "2",
                                         "OMPI_COMM_WORLD_SIZE",
                                         "4",
                                         NULL};

    assert_found(inside, 2, 4, "OMPI_COMM_WORLD_RANK");
}

/* All processes of torchrun on one machine have the variables of the process that started it there. */
TEST(torchrun_counts_before_the_launcher_that_has_started_it_on_each_machine)
{
    static const char *const variables[] = {
        "PMIX_RANK", "1", "SLURM_PROCID", "1", "SLURM_NTASKS",        "2",
        "RANK",      "3", "WORLD_SIZE",   "4", "TORCHELASTIC_RUN_ID", "none",
        NULL};

    assert_found(variables, 3, 4, "RANK");
}

TEST(the_options_count_before_all_variables)
{
    static const char *const other[] = {"RANK", "1", "WORLD_SIZE", "8", NULL};
    struct launch_rank r = find(other, 0, 2);

    assert_int_equal(r.rank, 0);
    assert_int_equal(r.size, 2);
}

TEST(no_rank_is_refused_with_what_was_looked_for)
{
    static const char *const none[] = {"WORLD_SIZE", "8", NULL};
    struct err e;

    refuse(none, -1, -1, &e);
    assert_error_has("--rank is not given, and no launcher has set one of the variables "
                     "OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK, RANK, SLURM_PROCID, JOB_COMPLETION_INDEX");
    assert_non_null(strstr(e.hint, "mpirun, srun or torchrun"));
}

TEST(two_launchers_that_disagree_are_refused)
{
    static const char *const ranks[] = {"RANK", "1", "WORLD_SIZE", "2", "PMI_RANK", "0", NULL};
    static const char *const sizes[] = {"RANK", "1",        "WORLD_SIZE", "2", "PMI_RANK",
                                        "1",    "PMI_SIZE", "3",          NULL};
    static const char *const size[] = {"RANK", "1", "WORLD_SIZE", "2", NULL};
    struct err e;

    refuse(ranks, -1, -1, &e);
    assert_error_has("PMI_RANK is 0, and RANK is 1 of 2");
    refuse(sizes, -1, -1, &e);
    assert_error_has("PMI_RANK is 1 of 3, and RANK is 1 of 2");
    refuse(size, -1, 4, &e);
    assert_error_has("--size is 4, and by RANK there are 2 processes");
}

TEST(a_rank_that_is_no_number_is_refused)
{
    static const char *const texts[][3] = {
        {"RANK", "", NULL}, {"RANK", "one", NULL}, {"RANK", "-1", NULL}, {"RANK", "1 ", NULL}};
    struct err e;

    for (size_t i = 0; i < N_OF(texts); i++) {
        refuse(texts[i], -1, -1, &e);
        assert_error_has("no number of a process");
    }
}

/* But the second process of `mpirun -n 2` is none of them. */
TEST(a_job_of_one_node_needs_no_number)
{
    static const char *const none[] = {NULL};
    static const char *const two[] = {"RANK", "1", "WORLD_SIZE", "2", NULL};
    struct launch_rank r = {.rank = -1};
    struct err e;

    now = none;
    assert_int_equal(launch_rank_find(&r, 1, -1, -1, get, &e), 0);
    assert_int_equal(r.rank, 0);
    assert_int_equal(launch_rank_check(&r, 1, &e), 0);
    now = two;
    assert_int_equal(launch_rank_find(&r, 1, -1, -1, get, &e), 0);
    assert_int_equal(launch_rank_check(&r, 1, &e), ERR_CONFIG);
    assert_error_has("the job has 1 node, a process for each, and by RANK there are 2 processes");
}

TEST(a_job_has_a_process_for_each_node)
{
    struct launch_rank r = {.rank = 1, .size = 2, .origin = "RANK"};
    struct err e;

    assert_int_equal(launch_rank_check(&r, 2, &e), 0);
    assert_int_equal(launch_rank_check(&r, 3, &e), ERR_CONFIG);
    assert_error_has("the job has 3 nodes, a process for each, and by RANK there are 2 processes");
    r.size = -1;
    assert_int_equal(launch_rank_check(&r, 1, &e), ERR_CONFIG);
    assert_error_has("by RANK this is process 1, and the job has 1 process, numbered from 0");
}

TEST(a_launch_has_the_launchers_name_and_a_job_of_slurm_one_that_no_daemon_of_mpirun_changes)
{
    static const struct {
        const char *environment[12], *name, *identity;
    } cases[] = {
        {{"SLURM_JOB_ID", "7", "SLURM_STEP_ID", "0", "SLURM_RESTART_COUNT", "2", NULL}, "7", "7.0.2"},
        {{"SLURM_JOB_ID", "7", "SLURM_STEP_ID", "3", NULL}, "7.3", "7.3.0"},
        {{"SLURM_JOB_ID", "7", "SLURM_STEP_ID", "3", "OMPI_COMM_WORLD_RANK", "1", NULL}, "7", ""},
        {{"SLURM_JOB_ID", "7", NULL}, "7", ""},
        {{"RANK", "0", NULL}, "", ""},
        {{"RANK", "0", "TORCHELASTIC_RUN_ID", "none", NULL}, "", ""},
        {{"RANK", "0", "TORCHELASTIC_RUN_ID", "a/b", "TORCHELASTIC_RESTART_COUNT", "1", NULL},
         "a_b",
         "a/b.1"},
        {{"OMPI_COMM_WORLD_RANK", "0", "PMIX_NAMESPACE", "77", NULL}, "77", "77.0"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64], identity[64];

        now = cases[i].environment;
        launch_name(name, sizeof name, get);
        launch_identity(identity, sizeof identity, get);
        assert_string_equal(name, cases[i].name);
        assert_string_equal(identity, cases[i].identity);
    }
}

TEST(launches_are_told_apart_by_their_names_and_not_by_restarts)
{
    assert_true(launch_is_other("7.0.0", "7.1.0"));
    assert_true(launch_is_other("7.0.0", "71.0.0"));
    assert_true(launch_is_other("4711-20", "4711-21"));
    assert_false(launch_is_other("run.0", "run.1"));
    assert_false(launch_is_other("7.0.0", ""));
    assert_false(launch_is_other("", "7.0.0"));
}

TEST(the_processes_of_other_launchers_cannot_talk_by_mpi)
{
    static const char *const mpi[] = {"PMI_RANK", "1", "PMI_SIZE", "2", NULL}, *const torchrun[] = {
                                                                                   "RANK", "1", NULL};
    struct launch_rank r = {.rank = 1, .size = 2, .origin = "--rank"};
    struct err e;

    now = mpi;
    assert_int_equal(launch_rank_check_mpi(&r, get, &e), 0);
    r.rank = 0;
    assert_int_equal(launch_rank_check_mpi(&r, get, &e), ERR_CONFIG);
    assert_error_has("no launcher of MPI has started this process as number 0");
    r.rank = 1;
    now = torchrun;
    assert_int_equal(launch_rank_check_mpi(&r, get, &e), ERR_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_launcher_says_which_process_this_is),
        cmocka_unit_test(mpirun_counts_before_the_slurm_job_that_it_runs_in),
        cmocka_unit_test(torchrun_counts_before_the_launcher_that_has_started_it_on_each_machine),
        cmocka_unit_test(the_options_count_before_all_variables),
        cmocka_unit_test(no_rank_is_refused_with_what_was_looked_for),
        cmocka_unit_test(two_launchers_that_disagree_are_refused),
        cmocka_unit_test(a_rank_that_is_no_number_is_refused),
        cmocka_unit_test(a_job_of_one_node_needs_no_number),
        cmocka_unit_test(a_job_has_a_process_for_each_node),
        cmocka_unit_test(
            a_launch_has_the_launchers_name_and_a_job_of_slurm_one_that_no_daemon_of_mpirun_changes),
        cmocka_unit_test(launches_are_told_apart_by_their_names_and_not_by_restarts),
        cmocka_unit_test(the_processes_of_other_launchers_cannot_talk_by_mpi),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
