#include "agent/jobs/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/jobs/job.h"
#include "tests/lib/small_disk.h"

static char path[128];

/* In place of the C library's: the next n calls fail, as on a disk with a bad sector. */
static int n_bad_syncs;

int fdatasync(int fd)
{
    if (n_bad_syncs == 0)
        return (int)syscall(SYS_fdatasync, fd);
    n_bad_syncs--;
    errno = EIO;
    return -1;
}

static size_t damaged[8], n_damaged; /* numbers of the lines */

static int replay(void *arg, const struct event *ev, struct err *e)
{
    return job_apply(arg, ev, e);
}

static void note_damage(void *arg, size_t line, const char *why)
{
    struct job *job = arg;

    job->has_gap = true;
    if (why)
        damaged[n_damaged++ % N_OF(damaged)] = line;
}

static int try_open(struct journal *j, struct job *job, off_t *cut, struct err *e)
{
    const struct journal_replay r = {.event = replay, .damage = note_damage, .arg = job};

    job_init(job);
    n_damaged = 0;
    return journal_open(j, path, &r, cut, e);
}

static void open_journal(struct journal *j, struct job *job, off_t *cut)
{
    struct err e;

    assert_ok(try_open(j, job, cut, &e));
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
    append(&j, &job, &ev);
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
    open_journal(&j, &job, &cut);
    assert_int_equal(cut, 0);
    assert_int_equal(job.state, JOB_FAILED);
    journal_close(&j);
}

TEST(a_journal_continues_after_a_torn_end)
{
    in_folder(goes_on_after_a_torn_end);
}

static void garbage_inside(void)
{
    static const char *const garbage[] = {
        "nonsense\n",
        "{\"seq\":1,\"at\":\"2026-11-21T07:31:22.123Z\",\"event\":\"end\",\"state\":\"failed\"}\n",
        "{\"seq\":3,\"at\":\"yesterday\",\"event\":\"log\",\"level\":\"info\",\"text\":\"\"}\n",
        "{\"note\":\"package\",\"at\":\"2026-11-21T07:31:22.123Z\",\"package\":\"lunch\",\"first\":\"\"}\n",
        "{\"note\":\"start\",\"at\":\"2026-11-21T07:31:22.123Z\",\"digest\":7}\n",
    };
    char *text, *all, *kept, *now, aside[160];
    struct err e;
    size_t len, kept_len, now_len, first = 0;

    write_life(2);
    snprintf(aside, sizeof aside, "%s" JOURNAL_DAMAGED, path);
    assert_ok(file_read(&text, &len, path, 1 << 20, &e));
    for (int lines = 0; lines < 5; first++)
        lines += text[first] == '\n';
    for (size_t i = 0; i < N_OF(garbage); i++) {
        struct journal j;
        struct job job;
        off_t cut;

        assert_true(asprintf(&all, "%.*s%s%s", (int)first, text, garbage[i], text + first) > 0);
        assert_ok(file_write(path, all, strlen(all), 0600, &e));
        for (int round = 0; round < 2; round++) {
            open_journal(&j, &job, &cut);
            assert_int_equal(n_damaged, round == 0 ? 1 : 0); /* it is reported once */
            assert_int_equal(job.state, JOB_SUCCEEDED);
            assert_int_equal(job.last_seq, 6);
            assert_int_equal(j.end, len + strlen(garbage[i]));
            journal_close(&j);
        }
        assert_int_equal(damaged[0], 6);
        assert_ok(file_read(&kept, &kept_len, aside, 1 << 20, &e));
        assert_int_equal(kept_len, strlen(all));
        assert_memory_equal(kept, all, kept_len);
        assert_ok(file_read(&now, &now_len, path, 1 << 20, &e));
        assert_int_equal(now_len, kept_len);
        unlink(aside);
        free(all);
        free(kept);
        free(now);
    }
    free(text);
}

TEST(a_damaged_line_is_left_out_and_the_file_as_it_was_is_kept)
{
    in_folder(garbage_inside);
}

/* Returns the text with the first byte of a line overwritten. */
static char *with_damage(const char *text, size_t line)
{
    char *copy = strdup(text), *p = copy;

    assert_non_null(copy);
    for (size_t i = 0; i < line; i++)
        p = strchr(p, '\n') + 1;
    *p = '#';
    return copy;
}

static void every_line_damaged(void)
{
    char *text;
    struct err e;
    size_t len, n_lines = 0;

    write_life(3);
    assert_ok(file_read(&text, &len, path, 1 << 20, &e));
    for (size_t i = 0; i < len; i++)
        n_lines += text[i] == '\n';
    for (size_t line = 1; line < n_lines;
         line++) { /* without the reservation a job needs its folder's name */
        char *copy = with_damage(text, line);
        struct journal j;
        struct job job;
        char event[EVENT_LINE_MAX + 1];
        size_t n_read = 0, event_len;
        off_t cut, at = 0;

        assert_ok(file_write(path, copy, len, 0600, &e));
        open_journal(&j, &job, &cut);
        /* An end stays the end, and no other line is lost with this one. */
        assert_int_equal(n_damaged, 1);
        assert_int_equal(job.state, line + 1 < n_lines ? JOB_SUCCEEDED : JOB_RUNNING);
        assert_int_equal(job.last_seq, line + 1 < n_lines ? 7 : 6);
        while (journal_next(&j, &at, event, &event_len))
            n_read++;
        assert_int_equal(n_read, j.n_events);
        for (uint64_t after = 0; after < 8; after++) {
            at = journal_seek(&j, after);
            if (journal_next(&j, &at, event, &event_len))
                assert_true(strtoull(event + strlen("{\"seq\":"), NULL, 10) > after);
            else
                assert_true(after >= job.last_seq);
        }
        journal_close(&j);
        free(copy);
        assert_true(asprintf(&copy, "%s" JOURNAL_DAMAGED, path) > 0);
        assert_int_equal(unlink(copy), 0);
        free(copy);
    }
    free(text);
}

TEST(one_damaged_line_loses_no_other_and_never_revives_an_ended_job)
{
    in_folder(every_line_damaged);
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
    open_journal(&j, &job, &cut);
    for (int p = 0; p < N_PACKAGES; p++)
        assert_true(job.packages[p].here);
    journal_close(&j);
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
}

TEST(a_reader_can_start_after_any_event)
{
    in_folder(seek_everywhere);
}

static void notes_like_events(void)
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
    memcpy(ev.spec.name, "{\"seq\":12345678901", 19); /* a job may have any name */
    append(&j, &job, &ev);
    event_state(&ev, EVENT_STATE, JOB_PREPARING, "", "");
    append(&j, &job, &ev);
    event_state(&ev, EVENT_STATE, JOB_READY, "", "");
    append(&j, &job, &ev);
    event_init(&ev, NOTE_START);
    append(&j, &job, &ev);
    event_state(&ev, EVENT_STATE, JOB_RUNNING, "", "");
    append(&j, &job, &ev);
    while (journal_next(&j, &at, line, &len))
        n++;
    assert_int_equal(n, 3);
    journal_close(&j);
}

TEST(notes_are_skipped_even_if_a_name_in_them_begins_as_an_event)
{
    in_folder(notes_like_events);
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
}

TEST(an_event_that_was_not_written_is_not_counted)
{
    in_folder(full_disk);
}

static void bad_sync(void)
{
    struct journal j;
    struct event ev;
    struct job job;
    struct stat before, after;
    off_t cut, end;
    struct err e;

    write_life(0);
    open_journal(&j, &job, &cut);
    assert_int_equal(fstat(j.fd, &before), 0);
    end = j.end;
    event_init(&ev, EVENT_LOG);
    memcpy(ev.level, "info", 5);
    ev.seq = j.n_events + 1;
    n_bad_syncs = 1;
    assert_int_equal(journal_append(&j, &ev, true, &e), ERR_IO);
    assert_int_equal(j.end, end);
    assert_int_equal(j.n_events, ev.seq - 1);
    /* The next one must not rely on pages that the kernel may have dropped: the file is another one. */
    assert_ok(journal_append(&j, &ev, true, &e));
    assert_int_equal(stat(path, &after), 0);
    assert_int_not_equal(before.st_ino, after.st_ino);
    assert_int_equal(after.st_size, j.end);
    assert_ok(
        journal_append(&j, &(struct event){.kind = EVENT_LOG, .level = "info", .seq = ev.seq + 1}, true, &e));
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    journal_close(&j);
}

TEST(after_a_failed_sync_the_file_is_written_anew)
{
    in_folder(bad_sync);
}

static void lost_pages(void)
{
    struct journal j;
    struct event ev;
    struct job job;
    struct err e;
    off_t cut;

    write_life(0);
    open_journal(&j, &job, &cut);
    event_init(&ev, EVENT_LOG);
    memcpy(ev.level, "info", 5);
    ev.seq = j.n_events + 1;
    n_bad_syncs = 1;
    assert_int_equal(journal_append(&j, &ev, true, &e), ERR_IO);
    assert_int_equal(truncate(path, j.end - 1), 0);
    assert_int_equal(journal_append(&j, &ev, true, &e), ERR_IO);
    assert_error_has("cannot be read back");
    journal_close(&j);
}

TEST(a_journal_that_reads_differently_after_a_failed_sync_takes_no_more_events)
{
    in_folder(lost_pages);
}

/* Logs until a line does not fit on the disk; ends once others have taken the space that is left. */
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
    if (try_open(&j, &job, &cut, &e) < 0)
        return false;
    event_init(&ev, EVENT_LOG);
    memcpy(ev.level, "info", 5);
    do
        ev.seq = j.n_events + 1;
    while (journal_append(&j, &ev, false, &e) == 0);
    fill_small_disk();
    event_state(&ev, EVENT_END, JOB_FAILED, "DiskFull", "");
    ev.seq = j.n_events + 1;
    is_kept = e.code == ERR_NOSPACE && journal_append(&j, &ev, true, &e) == 0;
    journal_close(&j);
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
        cmocka_unit_test(a_damaged_line_is_left_out_and_the_file_as_it_was_is_kept),
        cmocka_unit_test(one_damaged_line_loses_no_other_and_never_revives_an_ended_job),
        cmocka_unit_test(every_package_is_restored_from_the_journal),
        cmocka_unit_test(a_reader_can_start_after_any_event),
        cmocka_unit_test(notes_are_skipped_even_if_a_name_in_them_begins_as_an_event),
        cmocka_unit_test(an_event_that_was_not_written_is_not_counted),
        cmocka_unit_test(after_a_failed_sync_the_file_is_written_anew),
        cmocka_unit_test(a_journal_that_reads_differently_after_a_failed_sync_takes_no_more_events),
        cmocka_unit_test(the_outcome_of_a_job_is_saved_on_a_full_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
