#include "agent/base/notify.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "tests/lib/inotify_count.h"

enum { N_FILES = 3 };

struct scene;

/* An owner that a callback can free. */
struct owner {
    struct scene *s;
    int i;
    struct notify_file file;
};

struct scene {
    const char *folder;
    struct loop loop;
    struct notify notify;
    int fds[N_FILES];
    struct owner *owners[N_FILES];
    int n_calls[N_FILES];
    void (*then)(struct scene *, int i); /* at the end of file i's callback */
};

static void on_written(void *arg)
{
    const struct owner *o = arg;
    struct scene *s = o->s;

    s->n_calls[o->i]++;
    if (s->then)
        s->then(s, o->i);
}

static int try_add(struct scene *s, int i, int fd, struct err *e)
{
    struct owner *o = calloc(1, sizeof *o);

    assert_non_null(o);
    *o = (struct owner){.s = s, .i = i, .file = {.written = on_written, .arg = o}};
    if (notify_add(&s->notify, &o->file, fd, e) < 0) {
        assert_false(o->file.on);
        free(o);
        return e->code;
    }
    s->owners[i] = o;
    return 0;
}

static void add(struct scene *s, int i)
{
    struct err e;

    assert_ok(try_add(s, i, s->fds[i], &e));
}

static void drop(struct scene *s, int i)
{
    if (s->owners[i]) {
        notify_remove(&s->notify, &s->owners[i]->file);
        notify_remove(&s->notify, &s->owners[i]->file); /* no effect */
    }
    free(s->owners[i]);
    s->owners[i] = NULL;
}

static void scene_open(struct scene *s)
{
    char path[128];
    struct err e;

    *s = (struct scene){.folder = unit_folder(), .notify.loop = &s->loop};
    assert_ok(loop_open(&s->loop, &e));
    for (int i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof path, "%s/%d", s->folder, i);
        s->fds[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        assert_true(s->fds[i] >= 0);
    }
}

static void scene_close(struct scene *s)
{
    for (int i = 0; i < N_FILES; i++) {
        drop(s, i);
        close(s->fds[i]);
    }
    assert_int_equal(inotify_count(), 0);
    loop_close(&s->loop);
    unit_remove(s->folder);
}

static void write_to(const struct scene *s, int i)
{
    assert_int_equal(pwrite(s->fds[i], "x", 1, 0), 1);
}

TEST(a_write_calls_back_for_its_file_until_the_file_is_removed)
{
    char path[128], other[128];
    struct scene s;

    scene_open(&s);
    for (int i = 0; i < N_FILES; i++)
        add(&s, i);
    loop_turn(&s.loop, 0);
    assert_int_equal(s.n_calls[0] + s.n_calls[1] + s.n_calls[2], 0);
    for (int i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof path, "%s/%d", s.folder, i);
        snprintf(other, sizeof other, "%s/renamed-%d", s.folder, i);
        assert_int_equal(rename(path, other), 0);
        write_to(&s, i);
        loop_turn(&s.loop, 60);
        for (int k = 0; k < N_FILES; k++)
            assert_int_equal(s.n_calls[k], k <= i);
    }
    drop(&s, 1);
    write_to(&s, 1);
    loop_turn(&s.loop, 0);
    write_to(&s, 2);
    loop_turn(&s.loop, 60);
    assert_int_equal(s.n_calls[1], 1);
    assert_int_equal(s.n_calls[2], 2);
    scene_close(&s);
}

TEST(all_files_share_one_instance_that_is_closed_with_the_last)
{
    struct scene s;

    scene_open(&s);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(inotify_count(), 0);
        for (int i = 0; i < N_FILES; i++) {
            add(&s, i);
            assert_int_equal(inotify_count(), 1);
        }
        for (int i = 0; i < N_FILES; i++) {
            assert_int_equal(inotify_count(), 1);
            drop(&s, i);
        }
    }
    scene_close(&s);
}

static void drop_the_others(struct scene *s, int i)
{
    for (int k = 0; k < N_FILES; k++)
        if (k != i)
            drop(s, k);
}

TEST(a_file_removed_in_the_callback_of_another_is_not_called)
{
    struct scene s;

    scene_open(&s);
    s.then = drop_the_others;
    for (int i = 0; i < N_FILES; i++) {
        add(&s, i);
        write_to(&s, i);
    }
    loop_turn(&s.loop, 60);
    loop_turn(&s.loop, 0);
    assert_int_equal(s.n_calls[0] + s.n_calls[1] + s.n_calls[2], 1);
    scene_close(&s);
}

/* The second instance numbers its files from 1, as the first one did. */
static void replace_all_by_file_2(struct scene *s, int i)
{
    if (i == 2)
        return;
    drop(s, 0);
    drop(s, 1);
    assert_int_equal(inotify_count(), 0);
    add(s, 2);
}

TEST(an_event_of_a_removed_file_is_not_taken_for_one_of_a_file_added_since)
{
    struct scene s;

    scene_open(&s);
    s.then = replace_all_by_file_2;
    add(&s, 0);
    add(&s, 1);
    for (int round = 0; round < 2; round++) { /* not merged, as they alternate */
        write_to(&s, 0);
        write_to(&s, 1);
    }
    loop_turn(&s.loop, 60);
    loop_turn(&s.loop, 0);
    assert_int_equal(s.n_calls[0] + s.n_calls[1], 1);
    assert_int_equal(s.n_calls[2], 0);
    write_to(&s, 2);
    loop_turn(&s.loop, 60);
    assert_int_equal(s.n_calls[2], 1);
    scene_close(&s);
}

/* Returns how many events an instance holds; 0: unknown. */
static long queue_length(void)
{
    FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
    long n;

    if (!f)
        return 0;
    if (fscanf(f, "%ld", &n) != 1)
        n = 0;
    fclose(f);
    return n;
}

TEST(after_an_overflow_of_the_queue_every_file_is_called)
{
    const long n = queue_length();
    struct scene s;

    if (n < 1 || n > 1 << 20) /* this machine's setting */
        skip();
    scene_open(&s);
    for (int i = 0; i < N_FILES; i++)
        add(&s, i);
    for (long k = 0; k <= n; k++)
        write_to(&s, (int)(k % 2));
    write_to(&s, 2); /* finds the queue full */
    for (long turn = 0; turn <= n && s.n_calls[2] == 0; turn++)
        loop_turn(&s.loop, 0);
    assert_int_equal(s.n_calls[2], 1);
    scene_close(&s);
}

TEST(without_an_instance_or_a_watch_adding_fails_and_later_succeeds)
{
    struct rlimit limit, none;
    struct scene s;
    struct err e;

    scene_open(&s);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_true(try_add(&s, 0, s.fds[0], &e) < 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_error_has("no inotify instance is free: ");
    assert_true(try_add(&s, 0, -1, &e) < 0);
    assert_error_has("no inotify watch is free: ");
    assert_int_equal(inotify_count(), 0);
    add(&s, 0);
    assert_true(try_add(&s, 1, -1, &e) < 0);
    write_to(&s, 0);
    loop_turn(&s.loop, 60);
    assert_int_equal(s.n_calls[0], 1);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_calls_back_for_its_file_until_the_file_is_removed),
        cmocka_unit_test(all_files_share_one_instance_that_is_closed_with_the_last),
        cmocka_unit_test(a_file_removed_in_the_callback_of_another_is_not_called),
        cmocka_unit_test(an_event_of_a_removed_file_is_not_taken_for_one_of_a_file_added_since),
        cmocka_unit_test(after_an_overflow_of_the_queue_every_file_is_called),
        cmocka_unit_test(without_an_instance_or_a_watch_adding_fails_and_later_succeeds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
