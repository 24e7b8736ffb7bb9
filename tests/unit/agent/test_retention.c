/* Which ended jobs an agent keeps, and its answers about removed ones. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/jobs/retention.h"
#include "shared/base/clock.h"
#include "tests/lib/agent_fixture.h"
#include "tests/unit/unit.h"

static struct reply r;

TEST(ended_jobs_beyond_the_keep_limit_are_removed)
{
    struct fixture f = {.opt.keep = 2};
    char id[32], path[128];

    fixture_open(&f);
    for (int i = 0; i < 4; i++) {
        snprintf(id, sizeof id, "j-job00%d", i);
        snprintf(path, sizeof path, "/v1/jobs/%s/cancel", id);
        job_reserve(&f, &r, id, false);
        ask(&f, &r, "POST", path, NULL);
    }
    assert_null(task_find(&f.agent.jobs, "j-job001"));
    assert_non_null(task_find(&f.agent.jobs, "j-job002"));
    snprintf(path, sizeof path, "%s/agent/jobs/j-job001", f.folder);
    assert_int_not_equal(access(path, F_OK), 0);
    for (int i = 0; i < 2; i++) { /* also after a restart */
        assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-job001/events?after=0", NULL), 410);
        assert_non_null(strstr(r.body, "j-job001 was removed at 20"));
        assert_non_null(strstr(r.body, "this agent keeps the last 2 ended jobs (--keep)"));
        assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-job009", NULL), 404);
        fixture_crash(&f);
        fixture_reopen(&f);
    }
    assert_int_equal(ask(&f, &r, "DELETE", "/v1/jobs/j-job003", NULL), 204);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-job003", NULL), 410);
    assert_non_null(strstr(r.body, "deleted by owner"));
    fixture_close(&f);
}

static void end_one(struct fixture *f, const char *id)
{
    char path[64];

    snprintf(path, sizeof path, "/v1/jobs/%s/cancel", id);
    job_reserve(f, &r, id, false);
    ask(f, &r, "POST", path, NULL);
}

TEST(ended_jobs_that_are_too_old_or_too_big_are_removed)
{
    struct fixture f = {.opt = {.keep_days = 2, .keep_gib = 1}};

    fixture_open(&f);
    end_one(&f, "j-first1");
    end_one(&f, "j-second");
    task_find(&f.agent.jobs, "j-first1")->job.finished_at -= 2 * 86400 - 60;
    fixture_turn(&f);
    assert_non_null(task_find(&f.agent.jobs, "j-first1"));
    task_find(&f.agent.jobs, "j-first1")->job.finished_at -= 120;
    ask(&f, &r, "GET", "/v1/jobs/j-first1", NULL);
    fixture_turn(&f);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-first1", NULL), 410);
    assert_non_null(strstr(r.body, "for 2 days (--keep-days)"));
    end_one(&f, "j-third1");
    task_find(&f.agent.jobs, "j-third1")->kept_bytes = (uint64_t)1 << 30;
    fixture_turn(&f);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-second", NULL), 410);
    assert_non_null(strstr(r.body, "1 GiB of ended jobs (--keep-gib)"));
    assert_non_null(task_find(&f.agent.jobs, "j-third1")); /* the last one stays, however big */
    fixture_close(&f);
}

/* A folder in place of the file acts as a disk that takes no bytes. */
TEST(jobs_can_be_removed_from_a_disk_that_takes_no_reason)
{
    struct fixture f = {.opt.keep = 1};
    char path[128];

    fixture_open(&f);
    snprintf(path, sizeof path, "%s/agent/forgotten.json", f.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    end_one(&f, "j-first1");
    end_one(&f, "j-second");
    fixture_turn(&f);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-first1", NULL), 410);
    assert_int_equal(ask(&f, &r, "DELETE", "/v1/jobs/j-second", NULL), 204);
    assert_null(f.agent.jobs.first);
    fixture_close(&f);
}

TEST(a_job_that_cannot_be_removed_is_tried_again_after_a_minute)
{
    struct fixture f = {.opt.keep = 1};
    char path[128];

    fixture_open(&f);
    end_one(&f, "j-first1");
    snprintf(path, sizeof path, "%s/agent/jobs/j-first1/journal.jsonl", f.folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    end_one(&f, "j-second");
    fixture_turn(&f);
    assert_non_null(task_find(&f.agent.jobs, "j-first1"));
    assert_true(f.agent.jobs.trim_at > clock_now() + 50);
    assert_int_equal(rmdir(path), 0);
    fixture_turn(&f);
    assert_non_null(task_find(&f.agent.jobs, "j-first1"));
    f.agent.jobs.trim_at = clock_now();
    fixture_turn(&f);
    assert_null(task_find(&f.agent.jobs, "j-first1"));
    fixture_close(&f);
}

TEST(an_agent_starts_with_a_damaged_list_of_removed_jobs)
{
    static const char *const damaged[] = {"", "[{\"id\":", "[{\"id\":3}]", "{}"};
    struct fixture f = {0};
    char path[128];
    FILE *list;

    fixture_open(&f);
    end_one(&f, "j-first1");
    snprintf(path, sizeof path, "%s/agent/forgotten.json", f.folder);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        fixture_crash(&f);
        list = fopen(path, "w");
        assert_non_null(list);
        assert_true(fputs(damaged[i], list) >= 0);
        assert_int_equal(fclose(list), 0);
        fixture_reopen(&f);
        assert_non_null(task_find(&f.agent.jobs, "j-first1"));
    }
    assert_int_equal(ask(&f, &r, "DELETE", "/v1/jobs/j-first1", NULL), 204);
    fixture_crash(&f);
    fixture_reopen(&f);
    assert_int_equal(ask(&f, &r, "GET", "/v1/jobs/j-first1", NULL), 410);
    fixture_close(&f);
}

static void write_tombstones(const struct fixture *f, int n)
{
    char path[128];
    FILE *out;

    snprintf(path, sizeof path, "%s/agent/forgotten.json", f->folder);
    out = fopen(path, "w");
    assert_non_null(out);
    for (int i = 0; i < n; i++)
        fprintf(out, "%c{\"id\":\"j-%06d\",\"key_sha256\":\"\",\"at\":\"\",\"why\":\"deleted by owner\"}",
                i ? ',' : '[', i);
    fputc(']', out);
    assert_int_equal(fclose(out), 0);
}

static void reserve_and_remove(struct fixture *f, const char *id)
{
    char path[64];

    assert_int_equal(job_reserve(f, &r, id, false), 201);
    snprintf(path, sizeof path, "/v1/jobs/%s/cancel", id);
    ask(f, &r, "POST", path, "{\"grace_s\":0}");
    snprintf(path, sizeof path, "/v1/jobs/%s", id);
    assert_int_equal(ask(f, &r, "DELETE", path, NULL), 204);
}

TEST(the_list_of_removed_jobs_is_bounded)
{
    struct fixture f = {0};
    const struct jobs *jobs = &f.agent.jobs;

    fixture_open(&f);
    fixture_crash(&f);
    write_tombstones(&f, TOMBSTONES_MAX + 3);
    fixture_reopen(&f);
    assert_null(retention_tombstone(jobs, "j-000002"));
    assert_non_null(retention_tombstone(jobs, "j-000003"));
    assert_string_equal(retention_tombstone(jobs, "j-000258")->why, "deleted by owner");
    reserve_and_remove(&f, "j-again01");
    reserve_and_remove(&f, "j-again01"); /* has one tombstone */
    fixture_crash(&f);
    fixture_reopen(&f);
    assert_null(retention_tombstone(jobs, "j-000003"));
    assert_non_null(retention_tombstone(jobs, "j-000004"));
    assert_string_equal(retention_tombstone(jobs, "j-again01")->why, "deleted by owner");
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ended_jobs_beyond_the_keep_limit_are_removed),
        cmocka_unit_test(ended_jobs_that_are_too_old_or_too_big_are_removed),
        cmocka_unit_test(jobs_can_be_removed_from_a_disk_that_takes_no_reason),
        cmocka_unit_test(a_job_that_cannot_be_removed_is_tried_again_after_a_minute),
        cmocka_unit_test(an_agent_starts_with_a_damaged_list_of_removed_jobs),
        cmocka_unit_test(the_list_of_removed_jobs_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
