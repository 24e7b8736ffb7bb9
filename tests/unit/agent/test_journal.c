#include "agent/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include "agent/job.h"
#include "tests/unit/small_disk.h"

static char path[128];

static int replay(void *arg, const struct event *ev, struct err *e)
{
    return job_apply(arg, ev, e);
}

static void open_journal(struct journal *j, struct job *job, off_t *cut)
{
    struct err e;

    job_init(job);
    assert_ok(journal_open(j, path, replay, job, cut, &e));
}

static void append(struct journal *j, struct job *job, struct event *ev)
{
    struct err e;

    ev->seq = ev->kind < NOTE_RESERVE ? job->last_seq + 1 : 0;
    assert_ok(job_apply(job, ev, &e));
    assert_ok(journal_append(j, ev, false, &e));
}

/* The events of a job: reservation, socket, states, package, start, n progress lines, end. */
static void write_life(int n_progress)
{
    struct journal j;
    struct event ev;
    struct job job;
    off_t cut;

    open_journal(&j, &job, &cut);
    event_init(&ev, NOTE_RESERVE);
    ev.spec = (struct job_spec){
        .id = "j-abcdef", .attempt = 1, .role = "worker", .node_count = 1, .time_limit_s = 9};
    append(&j, &job, &ev);
    event_init(&ev, NOTE_SOCKET);
    ev.data_port = 4000;
    append(&j, &job, &ev);
    event_state(&ev, EVENT_STATE, JOB_PREPARING, "WaitingForPackages", "x");
    append(&j, &job, &ev);
    event_init(&ev, NOTE_PACKAGE);
    memcpy(ev.package, "model", 6);
    append(&j, &job, &ev);
    event_state(&ev, EVENT_STATE, JOB_READY, "", "");
    append(&j, &job, &ev);
    event_init(&ev, NOTE_START);
    ev.nodes = json_array();
    append(&j, &job, &ev);
    event_clear(&ev);
    event_state(&ev, EVENT_STATE, JOB_RUNNING, "", "");
    append(&j, &job, &ev);
    for (int i = 0; i < n_progress; i++) {
        event_init(&ev, EVENT_PROGRESS);
        ev.step = (uint64_t)i;
        append(&j, &job, &ev);
    }
    event_state(&ev, EVENT_END, JOB_SUCCEEDED, "", "done");
    append(&j, &job, &ev);
    journal_close(&j);
    job_clear(&job);
}

static void in_folder(void (*test)(void))
{
    const char *folder = unit_folder();

    snprintf(path, sizeof path, "%s/journal.jsonl", folder);
    test();
    unit_remove(folder);
}

static void every_truncation(void)
{
    char *text;
    struct err e;
    size_t len;

    write_life(3);
    assert_ok(file_read(&text, &len, path, 1 << 20, &e));
    for (size_t n = 0; n <= len; n++) {
        struct journal j;
        struct job job;
        off_t cut, at = 0;
        char line[EVENT_LINE_MAX + 1];
        uint64_t n_lines = 0;
        size_t whole = n, line_len;

        assert_ok(file_write(path, text, n, 0600, &e));
        while (whole > 0 && text[whole - 1] != '\n')
            whole--;
        open_journal(&j, &job, &cut);
        assert_int_equal(j.end, whole);
        assert_int_equal(cut, n - whole);
        assert_int_equal(job.last_seq, j.n_events);
        while (journal_next(&j, &at, line, &line_len))
            n_lines++;
        assert_int_equal(n_lines, j.n_events);
        assert_int_equal(at, j.end);
        if (n == len)
            assert_int_equal(job.state, JOB_SUCCEEDED);
        journal_close(&j);
        job_clear(&job);
    }
    free(text);
}

TEST(every_truncated_journal_is_recovered_as_a_prefix)
{
    in_folder(every_truncation);
}

static void goes_on_after_a_torn_end(void)
{
    struct journal j;
    struct event ev;
    struct job job;
    off_t cut;
    struct err e;
    size_t len;
    char *text;

    write_life(1);
    assert_ok(file_read(&text, &len, path, 1 << 20, &e));
    assert_ok(file_write(path, text, len - 3, 0600, &e)); /* the end is torn */
    free(text);
    open_journal(&j, &job, &cut);
    assert_true(cut > 0);
    assert_int_equal(job.state, JOB_RUNNING);
    event_state(&ev, EVENT_END, JOB_FAILED, "AgentRestarted", "");
    append(&j, &job, &ev);
    journal_close(&j);
    job_clear(&job);
    open_journal(&j, &job, &cut);
    assert_int_equal(cut, 0);
    assert_int_equal(job.state, JOB_FAILED);
    journal_close(&j);
    job_clear(&job);
}

TEST(a_journal_continues_after_a_torn_end)
{
    in_folder(goes_on_after_a_torn_end);
}

static void garbage_inside(void)
{
    static const char *const garbage[] = {
        "\n",
        "nonsense\n",
        "{\"seq\":99,\"at\":\"2026-11-21T07:31:22.123Z\",\"event\":\"log\",\"level\":\"info\",\"text\":\"\"}"
        "\n",
        "{\"seq\":1,\"at\":\"2026-11-21T07:31:22.123Z\",\"event\":\"log\",\"level\":\"info\",\"text\":\"\"}"
        "\n",
        "{\"seq\":3,\"at\":\"yesterday\",\"event\":\"log\",\"level\":\"info\",\"text\":\"\"}\n",
        "{\"note\":\"package\",\"at\":\"2026-11-21T07:31:22.123Z\",\"package\":\"lunch\",\"first\":\"\"}\n",
        "{\"note\":\"start\",\"at\":\"2026-11-21T07:31:22.123Z\",\"digest\":\"\",\"nodes\":7}\n",
    };
    char *text, *all, *now;
    struct err e;
    size_t len, now_len, first = 0;

    write_life(2);
    assert_ok(file_read(&text, &len, path, 1 << 20, &e));
    for (int lines = 0; lines < 5; first++)
        lines += text[first] == '\n';
    for (size_t i = 0; i < N_OF(garbage); i++) {
        struct journal j;
        struct job job;
        off_t cut;

        assert_true(asprintf(&all, "%.*s%s%s", (int)first, text, garbage[i], text + first) > 0);
        assert_ok(file_write(path, all, strlen(all), 0600, &e));
        free(all);
        job_init(&job);
        assert_int_equal(journal_open(&j, path, replay, &job, &cut, &e), ERR_CONFIG);
        assert_error_has("line 6: ");
        job_clear(&job);
        assert_ok(file_read(&now, &now_len, path, 1 << 20, &e));
        assert_int_equal(now_len, len + strlen(garbage[i]));
        free(now);
    }
    free(text);
}

TEST(a_journal_with_a_bad_line_is_refused_and_unchanged)
{
    in_folder(garbage_inside);
}

static void every_package(void)
{
    struct journal j;
    struct event ev;
    struct job job;
    off_t cut;

    open_journal(&j, &job, &cut);
    event_init(&ev, NOTE_RESERVE);
    ev.spec = (struct job_spec){.id = "j-abcdef",
                                .attempt = 1,
                                .role = "worker",
                                .node_count = 1,
                                .weights = true,
                                .time_limit_s = 9};
    append(&j, &job, &ev);
    event_state(&ev, EVENT_STATE, JOB_PREPARING, "", "");
    append(&j, &job, &ev);
    for (int p = 0; p < N_PACKAGES; p++) {
        event_init(&ev, NOTE_PACKAGE);
        snprintf(ev.package, sizeof ev.package, "%s", package_names[p]);
        append(&j, &job, &ev);
    }
    journal_close(&j);
    job_clear(&job);
    open_journal(&j, &job, &cut);
    for (int p = 0; p < N_PACKAGES; p++)
        assert_true(job.packages[p].here);
    journal_close(&j);
    job_clear(&job);
}

TEST(every_package_is_restored_from_the_journal)
{
    in_folder(every_package);
}

static void assert_seeks(const struct journal *j)
{
    for (uint64_t after = 0; after <= j->n_events + 1; after++) {
        off_t at = journal_seek(j, after);
        char line[EVENT_LINE_MAX + 1], want[32];
        size_t len;

        snprintf(want, sizeof want, "{\"seq\":%llu,", (unsigned long long)after + 1);
        assert_int_equal(journal_next(j, &at, line, &len), after < j->n_events);
        if (after < j->n_events)
            assert_int_equal(strncmp(line, want, strlen(want)), 0);
    }
}

static void seek_everywhere(void)
{
    enum { N = 700 };
    struct journal j;
    struct event ev;
    struct job job;
    struct err e;
    off_t cut;
    int fd;

    write_life(N);
    open_journal(&j, &job, &cut);
    assert_int_equal(j.n_events, N + 4);
    assert_seeks(&j);
    fd = j.fd;
    journal_rest(&j);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_seeks(&j);
    event_init(&ev, EVENT_LOG);
    assert_int_equal(journal_append(&j, &ev, false, &e), ERR_IO);
    assert_seeks(&j);
    journal_close(&j);
    job_clear(&job);
}

TEST(a_reader_can_start_after_any_event)
{
    in_folder(seek_everywhere);
}

static void long_notes(void)
{
    struct journal j;
    struct event ev;
    struct job job;
    off_t cut, at = 0;
    char line[EVENT_LINE_MAX + 1];
    size_t len, n = 0;

    open_journal(&j, &job, &cut);
    event_init(&ev, NOTE_RESERVE);
    ev.spec = (struct job_spec){
        .id = "j-abcdef", .attempt = 1, .role = "worker", .node_count = 1, .time_limit_s = 9};
    append(&j, &job, &ev);
    event_state(&ev, EVENT_STATE, JOB_PREPARING, "", "");
    append(&j, &job, &ev);
    event_state(&ev, EVENT_STATE, JOB_READY, "", "");
    append(&j, &job, &ev);
    event_init(&ev, NOTE_START);
    ev.nodes = json_array();
    for (int i = 0; i < 4096; i++) /* a node may have any name, even one like the head of an event */
        json_array_append_new(ev.nodes, json_pack("{s:i,s:s}", "node", i, "address", "{\"seq\":12345678901"));
    append(&j, &job, &ev);
    event_clear(&ev);
    event_state(&ev, EVENT_STATE, JOB_RUNNING, "", "");
    append(&j, &job, &ev);
    while (journal_next(&j, &at, line, &len))
        n++;
    assert_int_equal(n, 3);
    journal_close(&j);
    job_clear(&job);
}

TEST(notes_of_any_length_are_skipped)
{
    in_folder(long_notes);
}

static void full_disk(void)
{
    struct journal j;
    struct event ev;
    struct job job;
    off_t cut;
    struct err e;
    int full;

    write_life(0);
    open_journal(&j, &job, &cut);
    full = open("/dev/full", O_RDWR);
    assert_true(full >= 0);
    close(j.fd);
    j.fd = full;
    event_init(&ev, EVENT_LOG);
    ev.seq = j.n_events + 1;
    memcpy(ev.level, "info", 5);
    assert_int_not_equal(journal_append(&j, &ev, false, &e), 0);
    assert_int_equal(j.n_events, 4);
    journal_close(&j);
    job_clear(&job);
}

TEST(an_event_that_was_not_written_is_not_counted)
{
    in_folder(full_disk);
}

/* Logs until a line does not fit on the disk, then ends. */
static bool end_is_kept(void)
{
    static const char *const name = "journal.jsonl";
    struct journal j;
    struct event ev;
    struct job job;
    struct err e;
    off_t cut;
    bool is_kept;

    snprintf(path, sizeof path, "%s", name);
    write_life(0);
    job_init(&job);
    if (journal_open(&j, path, replay, &job, &cut, &e) < 0)
        return false;
    event_init(&ev, EVENT_LOG);
    memcpy(ev.level, "info", 5);
    do
        ev.seq = j.n_events + 1;
    while (journal_append(&j, &ev, false, &e) == 0);
    event_state(&ev, EVENT_END, JOB_FAILED, "DiskFull", "");
    ev.seq = j.n_events + 1;
    is_kept = e.code == ERR_NOSPACE && journal_append(&j, &ev, true, &e) == 0;
    journal_close(&j);
    job_clear(&job);
    return is_kept;
}

TEST(the_outcome_of_a_job_is_saved_on_a_full_disk)
{
    assert_true(on_small_disk(end_is_kept));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_truncated_journal_is_recovered_as_a_prefix),
        cmocka_unit_test(a_journal_continues_after_a_torn_end),
        cmocka_unit_test(a_journal_with_a_bad_line_is_refused_and_unchanged),
        cmocka_unit_test(every_package_is_restored_from_the_journal),
        cmocka_unit_test(a_reader_can_start_after_any_event),
        cmocka_unit_test(notes_of_any_length_are_skipped),
        cmocka_unit_test(an_event_that_was_not_written_is_not_counted),
        cmocka_unit_test(the_outcome_of_a_job_is_saved_on_a_full_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
