#include "runner/lines/report.h"

#include <limits.h>
#include <unistd.h>

#include "agent/jobs/event.h"
#include "tests/lib/small_disk.h"

/* Runs `write` in a folder of its own and reads its one line as the agent does. */
static void line_of(void (*write)(struct report *), struct event *ev)
{
    const char *folder = unit_folder();
    struct report r;
    struct err e;
    char *text, before[PATH_MAX];
    size_t len;

    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    assert_ok(report_open(&r, &e));
    write(&r);
    report_close(&r);
    assert_ok(file_read(&text, &len, "events.jsonl", 1 << 16, &e));
    assert_int_equal(chdir(before), 0);
    unit_remove(folder);
    assert_true(len > 0 && text[len - 1] == '\n');
    assert_ok(event_parse_line(ev, text, len - 1, true, &e));
    free(text);
}

static void end_in_latin(struct report *r)
{
    report_end(r, "failed", "DataInvalid", "no folder gew\344hlt: cut \303");
}

TEST(the_cause_of_an_end_is_reported_with_any_bytes_in_it)
{
    struct event ev;

    line_of(end_in_latin, &ev);
    assert_int_equal(ev.kind, EVENT_END);
    assert_int_equal(ev.state, JOB_FAILED);
    assert_string_equal(ev.reason, "DataInvalid");
    assert_string_equal(ev.message, "no folder gew?hlt: cut ?");
}

static void warn_in_latin(struct report *r)
{
    report_warn(r, "gew\344hlt");
}

TEST(a_warning_is_reported_with_any_bytes_in_it)
{
    struct event ev;

    line_of(warn_in_latin, &ev);
    assert_int_equal(ev.kind, EVENT_LOG);
    assert_string_equal(ev.text, "gew?hlt");
}

/* Reports until a line does not fit on the disk; ends once others have taken the space that is left, and
 * reads the report as the agent does. */
static bool end_is_reported(void)
{
    const char *last;
    struct report r;
    struct event ev;
    struct err e;
    char *text;
    size_t len, before;

    if (report_open(&r, &e) < 0)
        return false;
    len = 0;
    do {
        before = len;
        report_engine(&r, "any text");
        len = (size_t)lseek(r.fd, 0, SEEK_END);
    } while (len > before);
    fill_small_disk();
    report_end(&r, "failed", "DiskFull", "No space left on device");
    report_close(&r);
    if (file_read(&text, &len, "events.jsonl", 1 << 20, &e) < 0 || len <= before)
        return false;
    last = text + before;
    return event_parse_line(&ev, last, (size_t)(text + len - 1 - last), true, &e) == 0 &&
           ev.kind == EVENT_END && strcmp(ev.reason, "DiskFull") == 0;
}

TEST(the_outcome_of_a_node_is_reported_on_a_full_disk)
{
    assert_true(on_small_disk(end_is_reported));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cause_of_an_end_is_reported_with_any_bytes_in_it),
        cmocka_unit_test(a_warning_is_reported_with_any_bytes_in_it),
        cmocka_unit_test(the_outcome_of_a_node_is_reported_on_a_full_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
