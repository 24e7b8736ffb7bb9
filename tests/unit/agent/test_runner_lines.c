#include "agent/jobs/runner_lines.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/unit.h"

struct received {
    size_t n, n_last;
    char last[RUNNER_LINE_MAX + 1];
    uint64_t sum; /* over all bytes and lengths, in order */
};

static void receive(void *arg, const char *text, size_t len)
{
    struct received *h = arg;

    h->n++;
    h->n_last = len;
    memcpy(h->last, text, len);
    h->last[len] = '\0';
    for (size_t i = 0; i < len; i++)
        h->sum = h->sum * 31 + (unsigned char)text[i];
    h->sum = h->sum * 31 + len;
}

struct scene {
    const char *folder;
    int writer;
    struct tail tail;
    struct received received;
};

static void scene_open(struct scene *s)
{
    char path[128];

    *s = (struct scene){.folder = unit_folder()};
    snprintf(path, sizeof path, "%s/events.jsonl", s->folder);
    s->writer = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    tail_open(&s->tail, open(path, O_RDONLY));
}

static void scene_close(struct scene *s)
{
    tail_close(&s->tail);
    tail_close(&s->tail);
    close(s->writer);
    unit_remove(s->folder);
}

static void append(struct scene *s, const char *bytes, size_t len)
{
    assert_int_equal(write(s->writer, bytes, len), len);
}

TEST(a_line_is_returned_once_complete_however_it_arrives)
{
    static const char text[] = "one\n\ntwo {\"x\":1}\nthree\n";
    uint64_t want = 0;

    for (size_t step = 1; step < sizeof text; step++) {
        struct scene s;

        scene_open(&s);
        for (size_t at = 0; at < sizeof text - 1; at += step) {
            append(&s, text + at, at + step < sizeof text - 1 ? step : sizeof text - 1 - at);
            assert_false(tail_read(&s.tail, receive, &s.received));
        }
        assert_int_equal(s.received.n, 4);
        assert_string_equal(s.received.last, "three");
        if (step == 1)
            want = s.received.sum;
        assert_true(s.received.sum == want);
        scene_close(&s);
    }
}

TEST(lines_of_up_to_4_kib_are_accepted_and_longer_ones_dropped_whole)
{
    static char line[3 * RUNNER_LINE_MAX];

    memset(line, 'x', sizeof line);
    for (size_t len = RUNNER_LINE_MAX - 1; len <= RUNNER_LINE_MAX + 1; len++) {
        struct scene s;

        scene_open(&s);
        append(&s, line, len);
        tail_read(&s.tail, receive, &s.received);
        append(&s, "\nshort\n", 7);
        tail_read(&s.tail, receive, &s.received);
        assert_int_equal(s.received.n, len <= RUNNER_LINE_MAX ? 2 : 1);
        assert_int_equal(s.tail.n_dropped, len <= RUNNER_LINE_MAX ? 0 : 1);
        assert_string_equal(s.received.last, "short");
        append(&s, line, sizeof line);
        tail_read(&s.tail, receive, &s.received);
        append(&s, line, sizeof line);
        append(&s, "\nend\n", 5);
        tail_read(&s.tail, receive, &s.received);
        assert_string_equal(s.received.last, "end");
        scene_close(&s);
    }
}

TEST(one_turn_reads_a_bounded_chunk_and_reports_that_there_is_more)
{
    static char block[64 << 10];
    struct scene s;
    int turns = 1;

    scene_open(&s);
    memset(block, '\n', sizeof block);
    for (int i = 0; i < 16; i++)
        append(&s, block, sizeof block);
    while (tail_read(&s.tail, receive, &s.received))
        turns++;
    assert_int_equal(s.received.n, 16 * sizeof block);
    assert_int_equal(turns, 1 + 16 * sizeof block / TAIL_TURN_BYTES);
    scene_close(&s);
}

static bool offer(struct line_limit *in, const char *text, double room, double now)
{
    return line_limit_offer(in, text, strlen(text), room, now);
}

TEST(a_flood_gives_a_sample_and_its_latest_progress)
{
    enum { LINES = 100000 };
    static struct line_limit in;
    struct held_line last;
    uint64_t n_taken = 0;
    char text[64];

    for (int i = 0; i < LINES; i++) { /* within ten seconds */
        snprintf(text, sizeof text, "{\"event\":\"progress\",\"step\":%d}", i);
        n_taken += offer(&in, text, 1, 1000 + 10. * i / LINES);
    }
    assert_true(n_taken >= LINE_BURST && n_taken <= LINE_BURST + 10 * LINE_RATE);
    assert_int_equal(in.n_seen, LINES);
    assert_int_equal(in.n_dropped + n_taken + line_limit_n_held(&in), LINES);
    assert_true(line_limit_take_held(&in, &last, 1, 1010, true));
    assert_int_equal(last.len, strlen(text));
    assert_memory_equal(last.text, text, last.len);
    assert_false(line_limit_take_held(&in, &last, 1, 1010, true));
}

TEST(a_runners_own_lines_all_pass)
{
    static struct line_limit in;

    for (int i = 0; i < 36000; i++) /* two hours of five a second, the journal half full */
        assert_true(offer(&in, "{\"event\":\"progress\"}", 0.5, 1000 + i / 5.));
    assert_int_equal(in.n_dropped, 0);
}

TEST(a_held_line_passes_when_there_is_a_token_again)
{
    static struct line_limit in;
    struct held_line line;

    while (offer(&in, "{\"event\":\"log\"}", 1, 1000))
        continue;
    assert_int_equal(in.n_dropped, 1);
    assert_false(offer(&in, "{\"event\":\"eval\",\"step\":1}", 1, 1000));
    assert_false(line_limit_take_held(&in, &line, 1, 1000, false));
    assert_true(line_limit_take_held(&in, &line, 1, 1001, false));
    assert_true(runner_line_is("eval", line.text, line.len));
}

TEST(the_first_line_of_each_fact_passes_in_a_flood_and_with_a_full_journal)
{
    static const char *const facts[] = {"engine", "isolation", "stopped", "result"};
    static struct line_limit in;
    char text[64];

    while (offer(&in, "{\"event\":\"log\"}", 1, 1000))
        continue;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        snprintf(text, sizeof text, "{\"event\":\"%s\",\"n\":1}", facts[i]);
        assert_true(offer(&in, text, i % 2 ? 1 : 0, 1000));
        assert_false(offer(&in, text, 1, 1000)); /* a codec may write it any number of times */
    }
    assert_int_equal(in.n_dropped, 1 + sizeof facts / sizeof *facts);
}

TEST(nothing_else_is_taken_once_the_journal_is_full)
{
    static struct line_limit in;

    assert_false(offer(&in, "{\"event\":\"log\"}", 0, 1000));
    assert_false(offer(&in, "{\"event\":\"log\"}", 0, 9000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_returned_once_complete_however_it_arrives),
        cmocka_unit_test(lines_of_up_to_4_kib_are_accepted_and_longer_ones_dropped_whole),
        cmocka_unit_test(one_turn_reads_a_bounded_chunk_and_reports_that_there_is_more),
        cmocka_unit_test(a_flood_gives_a_sample_and_its_latest_progress),
        cmocka_unit_test(a_runners_own_lines_all_pass),
        cmocka_unit_test(a_held_line_passes_when_there_is_a_token_again),
        cmocka_unit_test(the_first_line_of_each_fact_passes_in_a_flood_and_with_a_full_journal),
        cmocka_unit_test(nothing_else_is_taken_once_the_journal_is_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
