#include "submit/launch/slurm.h"

#include "tests/unit/unit.h"

TEST(the_processes_of_a_job_follow_from_the_options_of_sbatch)
{
    static const struct {
        const char *options;
        int n;
    } cases[] = {{"-N 8 -t 2:00:00", 8},
                 {"-N8", 8},
                 {"--nodes=2 --ntasks-per-node=4", 8},
                 {"--nodes 2 --ntasks 6", 6},
                 {"-t 5 -n3 --mem=2G", 3},
                 {"-t 5 --nodelist=v0", 0},
                 {"--ntasks=", 0},
                 {"", 0}};
    struct err e;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n = -1;

        assert_int_equal(slurm_processes(&n, cases[i].options, &e), 0);
        assert_int_equal(n, cases[i].n);
    }
}

TEST(a_number_of_processes_that_is_none_is_refused)
{
    struct err e;
    int n;

    assert_int_equal(slurm_processes(&n, "-N 2-4", &e), ERR_USAGE);
    assert_string_equal(e.text, "--slurm: --nodes \"2-4\" is no number");
    assert_int_equal(slurm_processes(&n, "-n 0", &e), ERR_USAGE);
}

TEST(more_processes_than_a_job_can_have_are_refused)
{
    struct err e;
    int n;

    assert_int_equal(slurm_processes(&n, "-N 100000 --ntasks-per-node 100000", &e), ERR_USAGE);
    assert_string_equal(e.text, "--slurm: --nodes 100000 is more than the 8192 nodes that a job can have");
    assert_int_equal(slurm_processes(&n, "-N 8192 --ntasks-per-node 8192", &e), ERR_USAGE);
    assert_string_equal(
        e.text, "--slurm asks for 67108864 processes, and a job has at most 8192 nodes, a process for each");
    assert_int_equal(slurm_processes(&n, "-n 99999999999999999999", &e), ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_processes_of_a_job_follow_from_the_options_of_sbatch),
        cmocka_unit_test(a_number_of_processes_that_is_none_is_refused),
        cmocka_unit_test(more_processes_than_a_job_can_have_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
