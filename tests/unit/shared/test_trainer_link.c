/* A program whose records wait in the socket before psgd's end asks for them. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/fd_pass.h"
#include "shared/base/flag.h"
#include "shared/trainer/trainer_link.h"

enum { PROGRAM, PSGD };

static struct {
    int program; /* its end */
    uint64_t n_sent;
    struct trainer_link link;
    char metric[TRAINER_TEXT];
    double value;
    size_t n_rows, batch;
    uint64_t epoch;
    int32_t first_label;
    int n_waits;
    atomic_bool interrupted;
} it;

static double soon(void)
{
    return clock_now() + 30;
}

static int take_metric(void *owner, const char *name, double value, struct err *e)
{
    (void)owner, (void)e;
    snprintf(it.metric, sizeof it.metric, "%s", name);
    it.value = value;
    return 0;
}

/* All rows but the first, in the reverse order. */
static int divide_rows(void *owner, const struct shard_request *request, uint32_t **index, size_t *n,
                       struct err *e)
{
    size_t n_rows = request->n_rows;

    (void)owner;
    it.n_rows = n_rows;
    it.batch = request->batch;
    it.epoch = request->epoch;
    it.first_label = request->labels ? request->labels[0] : -1;
    if (n_rows < 2)
        return err_set(e, ERR_TRAINER, "too few rows");
    *n = n_rows - 1;
    *index = malloc(*n * sizeof **index);
    for (uint32_t i = 0; i < *n; i++)
        (*index)[i] = (uint32_t)n_rows - 1 - i;
    return 0;
}

static int make_memory(void *owner, size_t bytes)
{
    int fd = memfd_create("index", MFD_CLOEXEC);

    (void)owner;
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    return fd;
}

static int interrupt(void *owner, struct err *e)
{
    (void)owner, (void)e;
    flag_raise(&it.interrupted);
    it.n_waits++;
    return 0;
}

static void open_link(void)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
    it.program = fds[PROGRAM];
    it.n_sent = 0;
    it.n_waits = 0;
    flag_lower(&it.interrupted);
    trainer_link_open(&it.link, &(struct trainer_link_config){.fd = fds[PSGD],
                                                              .program = "train.py",
                                                              .interrupted = &it.interrupted,
                                                              .metric = take_metric,
                                                              .shard = divide_rows,
                                                              .memory = make_memory});
}

static void close_program(void)
{
    if (it.program >= 0)
        close(it.program);
    it.program = -1;
}

static void close_link(void)
{
    close_program();
    trainer_link_close(&it.link);
}

static void send_bytes(const void *bytes, size_t n, int fd)
{
    assert_int_equal(fd_pass_send(it.program, bytes, n, fd, 0), n);
    it.n_sent++;
}

static void send_with(struct trainer_record r, int fd)
{
    r.version = TRAINER_VERSION;
    r.sequence = it.n_sent;
    send_bytes(&r, sizeof r, fd);
}

static void send_one(struct trainer_record r)
{
    send_with(r, -1);
}

static void send_kind(enum trainer_kind kind)
{
    send_one((struct trainer_record){.kind = kind});
}

static void send_tensor(const char *name, int n_dims, uint64_t a, uint64_t b, bool is_statistic)
{
    struct trainer_record r = {.kind = TRAINER_TENSOR,
                               .flags = is_statistic ? TRAINER_STATISTIC : 0,
                               .n_dims = n_dims,
                               .u.of.shape = {a, b}};

    strcpy(r.u.of.text, name);
    send_one(r);
}

static void send_layout(void)
{
    send_one((struct trainer_record){.kind = TRAINER_OPEN, .n = 3});
    send_tensor("W", 2, 784, 10, false);
    send_tensor("loss.scale", 0, 0, 0, false);
    send_tensor("bn.mean", 1, 10, 0, true);
}

/* What psgd has sent. */
static struct trainer_record receive(uint32_t kind, int *fd)
{
    struct trainer_record r;

    assert_int_equal(fd_pass_receive(it.program, &r, sizeof r, fd, MSG_DONTWAIT), sizeof r);
    assert_int_equal(r.kind, kind);
    assert_int_equal(r.version, TRAINER_VERSION);
    return r;
}

static int take(struct trainer_tensors *t, struct err *e)
{
    return trainer_link_take_tensors(&it.link, t, soon(), e);
}

static void assert_refused(int rc, const struct err *e, const char *why)
{
    assert_int_equal(rc, ERR_TRAINER);
    if (strncmp(e->text, "train.py", 8) != 0 || !strstr(e->text, why))
        fail_msg("\"%s\" has no \"%s\"", e->text, why);
}

TEST(a_programs_tensors_are_taken_in_their_order)
{
    struct trainer_tensors t;
    struct err e = {0};

    open_link();
    send_layout();
    assert_ok(take(&t, &e));
    assert_int_equal(t.n, 3);
    assert_int_equal(t.n_frozen, 0);
    assert_string_equal(t.all[0].name, "W");
    assert_int_equal(t.all[0].n_dims, 2);
    assert_int_equal(t.all[0].shape[0], 784);
    assert_int_equal(t.all[1].n_dims, 0);
    assert_true(t.all[2].is_statistic && !t.all[1].is_statistic);
    trainer_tensors_clear(&t);
    close_link();
}

static void send_frozen(const char *name, uint64_t checksum)
{
    struct trainer_record r = {.kind = TRAINER_TENSOR, .flags = TRAINER_FROZEN, .n = checksum};

    strcpy(r.u.of.text, name);
    send_one(r);
}

TEST(frozen_tensors_are_apart_and_have_checksums)
{
    struct trainer_tensors t;
    struct err e = {0};

    open_link();
    send_one((struct trainer_record){.kind = TRAINER_OPEN, .n = 3});
    send_frozen("base.weight", UINT32_MAX);
    send_tensor("W", 1, 2, 0, false);
    send_frozen("base.bias", 0);
    assert_ok(take(&t, &e));
    assert_int_equal(t.n, 1);
    assert_int_equal(t.n_frozen, 2);
    assert_string_equal(t.frozen[0].name, "base.weight");
    assert_string_equal(t.frozen[1].name, "base.bias");
    assert_true(t.frozen[0].checksum == UINT32_MAX && t.frozen[1].checksum == 0);
    trainer_tensors_clear(&t);
    close_link();

    open_link();
    send_one((struct trainer_record){.kind = TRAINER_OPEN, .n = 2});
    send_tensor("W", 1, 2, 0, false);
    send_frozen("W", 1);
    assert_refused(take(&t, &e), &e, "tensor 'W' comes twice");
    close_link();

    open_link();
    send_one((struct trainer_record){.kind = TRAINER_OPEN, .n = 1});
    send_frozen("W", 1);
    assert_refused(take(&t, &e), &e, "has no tensors to train");
    close_link();

    open_link();
    send_one((struct trainer_record){.kind = TRAINER_OPEN, .n = 1});
    send_frozen("W", UINT64_C(1) << 32);
    assert_refused(take(&t, &e), &e, "malformed record TENSOR");
    close_link();
}

TEST(frozen_tensors_that_are_not_the_jobs_are_refused_with_the_difference)
{
    struct model_tensor w = {.name = "W"};
    struct model_frozen job[] = {{"base.weight", 7}, {"base.bias", 8}};
    struct model_spec spec = {.tensors = &w, .n_tensors = 1, .frozen = job, .n_frozen = 2};
    static const struct {
        size_t n;
        struct model_frozen own[3];
        const char *why;
    } cases[] = {
        {2,
         {{"base.weight", 7}, {"base.bias", 9}},
         "'base.bias' is frozen, and in train.py on node 2 has other values than where the job was "
         "submitted"},
        {2, {{"base.bias", 8}, {"base.weight", 7}}, "frozen tensor 1 is 'base.bias' in train.py on node 2"},
        {1, {{"base.weight", 7}}, "'base.bias' is not frozen in train.py on node 2 and frozen in the job"},
        {3,
         {{"base.weight", 7}, {"base.bias", 8}, {"c", 9}},
         "'c' is frozen in train.py on node 2 and not in the job"},
    };
    struct trainer_tensors own = {.all = &w, .n = 1, .frozen = job, .n_frozen = 2};
    struct err e;

    open_link();
    assert_int_equal(trainer_link_compare(&it.link, 2, &own, &spec, &e), 0);
    for (size_t i = 0; i < N_OF(cases); i++) {
        struct model_frozen frozen[3];

        memcpy(frozen, cases[i].own, sizeof frozen);
        own.frozen = frozen;
        own.n_frozen = cases[i].n;
        assert_int_equal(trainer_link_compare(&it.link, 2, &own, &spec, &e), ERR_TRAINER);
        assert_error_has(cases[i].why);
    }
    close_link();
}

TEST(a_layout_that_is_not_the_jobs_is_refused_with_the_difference)
{
    struct model_tensor job[] = {{.name = "W", .n_dims = 2, .shape = {784, 10}},
                                 {.name = "loss.scale"},
                                 {.name = "bn.mean", .n_dims = 1, .shape = {10}, .is_statistic = true}};
    static const struct {
        size_t n, at;
        struct model_tensor other;
        const char *why;
    } cases[] = {
        {3,
         0,
         {.name = "W", .n_dims = 2, .shape = {784, 100}},
         "'W' is (784, 100) in train.py on node 2 and (784, 10) in the job"},
        {3,
         0,
         {.name = "V", .n_dims = 2, .shape = {784, 10}},
         "tensor 1 is 'V' in train.py on node 2 and 'W' in the job"},
        {3,
         2,
         {.name = "bn.mean", .n_dims = 1, .shape = {10}},
         "'bn.mean' is trained in train.py on node 2 and a running statistic"},
        {2,
         0,
         {.name = "W", .n_dims = 2, .shape = {784, 10}},
         "2 tensors on node 2, and 3 in the job: 'bn.mean' is missing"},
    };
    struct model_spec spec = {.tensors = job, .n_tensors = 3};
    struct trainer_tensors all = {.all = job, .n = 3};
    struct err e;

    open_link();
    assert_int_equal(trainer_link_compare(&it.link, 2, &all, &spec, &e), 0);
    for (size_t i = 0; i < N_OF(cases); i++) {
        struct model_tensor own[3];

        memcpy(own, job, sizeof own);
        own[cases[i].at] = cases[i].other;
        all = (struct trainer_tensors){.all = own, .n = cases[i].n};
        assert_int_equal(trainer_link_compare(&it.link, 2, &all, &spec, &e), ERR_TRAINER);
        assert_error_has(cases[i].why);
    }
    spec.n_tensors = 2;
    all = (struct trainer_tensors){.all = job, .n = 3};
    assert_int_equal(trainer_link_compare(&it.link, 2, &all, &spec, &e), ERR_TRAINER);
    assert_error_has("'bn.mean' is new");
    close_link();
}

TEST(a_program_that_is_accepted_gets_the_memory_and_becomes_ready)
{
    struct trainer_accepted a = trainer_link_lay_out(7851, 7841);
    struct trainer_record r;
    uint64_t n_batches;
    struct err e = {0};
    int memory = make_memory(NULL, (size_t)a.bytes), fd;

    assert_int_equal(a.grads_at % TRAINER_PAGE, 0);
    assert_true(a.grads_at >= 7851 * sizeof(float) && a.combined_at == 2 * a.grads_at);
    a.node = 1;
    open_link();
    send_kind(TRAINER_VALUES);
    send_one((struct trainer_record){.kind = TRAINER_READY, .n = 60});
    assert_ok(trainer_link_accept(&it.link, &a, TRAINER_TAKES_GRADIENTS, memory, soon(), &e));
    assert_ok(trainer_link_await_ready(&it.link, &n_batches, soon(), &e));
    assert_int_equal(n_batches, 60);
    r = receive(TRAINER_ACCEPTED, &fd);
    assert_true(fd >= 0 && r.flags == TRAINER_TAKES_GRADIENTS);
    assert_memory_equal(&r.u.accepted, &a, sizeof a);
    close(fd);
    close(memory);
    close_link();
}

TEST(each_turn_takes_its_answers_and_no_others)
{
    static const struct {
        enum trainer_kind turn, answers[4];
    } turns[] = {
        {TRAINER_GO, {TRAINER_GRADIENT, TRAINER_UPDATED}},
        {TRAINER_UPDATE, {TRAINER_UPDATED}},
        {TRAINER_EVALUATE, {TRAINER_EVALUATED}},
        {TRAINER_SAVE, {TRAINER_SAVED}},
        {TRAINER_RESTORE, {TRAINER_RESTORED}},
        {TRAINER_STORE, {TRAINER_STORED}},
    };

    for (size_t i = 0; i < N_OF(turns); i++)
        for (uint32_t kind = TRAINER_OPEN; kind <= TRAINER_STORED; kind++) {
            const struct trainer_record turn = {.kind = turns[i].turn, .step = 7};
            struct trainer_record answer;
            bool is_one = false;
            struct err e = {0};
            int rc, fd;

            for (int k = 0; k < 4; k++)
                is_one = is_one || turns[i].answers[k] == kind;
            if (kind == TRAINER_METRIC || kind == TRAINER_SHARD ||
                kind == TRAINER_FINISHED) /* may precede each */
                continue;
            open_link();
            send_one((struct trainer_record){.kind = kind, .loss = 0.5});
            rc = trainer_link_turn(&it.link, &turn, -1, &answer, soon(), &e);
            if (is_one) {
                assert_ok(rc);
                assert_true(answer.kind == kind && answer.loss == 0.5);
                assert_int_equal(receive(turns[i].turn, &fd).step, 7);
            } else {
                assert_refused(rc, &e, "");
            }
            close_link();
        }
}

static int go(struct trainer_record *answer, struct err *e)
{
    const struct trainer_record turn = {.kind = TRAINER_GO};

    return trainer_link_turn(&it.link, &turn, -1, answer, soon(), e);
}

TEST(metrics_and_shards_are_served_before_an_answer)
{
    static const int32_t labels[] = {4, 1, 9};
    struct trainer_record answer, r;
    int fd = make_memory(NULL, sizeof labels), got;
    uint32_t index[2];
    struct err e = {0};

    assert_int_equal(pwrite(fd, labels, sizeof labels, 0), sizeof labels);
    open_link();
    send_one((struct trainer_record){.kind = TRAINER_METRIC, .loss = 0.25, .u.of.text = "val/f1"});
    send_with((struct trainer_record){.kind = TRAINER_SHARD, .n = 3, .flags = TRAINER_HAS_LABELS}, fd);
    send_one(
        (struct trainer_record){.kind = TRAINER_SHARD, .n = 1, .step = 7, .n_dims = 1, .u.of.shape = {5}});
    send_one((struct trainer_record){.kind = TRAINER_GRADIENT, .n = 64});
    assert_ok(go(&answer, &e));
    assert_int_equal(answer.n, 64);
    assert_string_equal(it.metric, "val/f1");
    assert_true(it.value == 0.25);
    receive(TRAINER_GO, &got);
    r = receive(TRAINER_SHARDED, &got);
    assert_int_equal(r.n, 2);
    assert_int_equal(pread(got, index, sizeof index, 0), sizeof index);
    assert_true(index[0] == 2 && index[1] == 1);
    close(got);
    assert_true(it.n_rows == 1 && it.batch == 5 && it.epoch == 7); /* of the second */
    assert_int_equal(it.first_label, -1);
    assert_string_equal(receive(TRAINER_REFUSED, &got).u.of.text, "too few rows");
    close(fd);
    close_link();
}

TEST(metrics_do_not_keep_the_caller_from_being_interrupted)
{
    struct trainer_record answer;
    struct err e = {0};

    open_link();
    flag_raise(&it.interrupted);
    send_one((struct trainer_record){.kind = TRAINER_METRIC, .loss = 0.25, .u.of.text = "f1"});
    send_one((struct trainer_record){.kind = TRAINER_GRADIENT, .n = 64});
    assert_int_equal(go(&answer, &e), ERR_CANCELLED);
    close_link();
}

static const struct trainer_record empty_tensor = {.kind = TRAINER_TENSOR, .u.of.text = "W"};

TEST(malformed_records_are_refused)
{
    struct trainer_record no_end = empty_tensor,
                          late = {.kind = TRAINER_OPEN, .n = 1, .version = TRAINER_VERSION};
    struct trainer_tensors t;
    struct err e;

    memset(no_end.u.of.text, 'a', sizeof no_end.u.of.text);
    late.sequence = 1;
    {
        const struct {
            struct trainer_record r;
            size_t size;
            const char *why;
        } cases[] = {
            {late, sizeof late, "malformed record OPEN"},
            {late, sizeof late - 1, "a record of another size"},
            {{.kind = TRAINER_OPEN, .n = 1, .version = 2},
             sizeof late,
             "version 2, and this psgd has version 1"},
            {{.kind = 0, .version = TRAINER_VERSION}, sizeof late, "unknown kind"},
            {{.kind = 99, .version = TRAINER_VERSION}, sizeof late, "unknown kind"},
            {{.kind = TRAINER_GO, .version = TRAINER_VERSION}, sizeof late, "unknown kind"},
            {{.kind = TRAINER_READY, .version = TRAINER_VERSION},
             sizeof late,
             "READY where it does not belong"},
            {{.kind = TRAINER_METRIC, .version = TRAINER_VERSION}, sizeof late, "METRIC where it does not"},
            {{.kind = TRAINER_OPEN, .n = TRAINER_TENSORS_MAX + 1, .version = TRAINER_VERSION},
             sizeof late,
             "malformed record OPEN"},
            {{.kind = TRAINER_OPEN, .version = TRAINER_VERSION}, sizeof late, "no tensors to train"},
        };

        for (size_t i = 0; i < N_OF(cases); i++) {
            open_link();
            send_bytes(&cases[i].r, cases[i].size, -1);
            assert_refused(take(&t, &e), &e, cases[i].why);
            assert_null(t.all);
            close_link();
        }
    }
    {
        const struct {
            struct trainer_record r;
            const char *why;
        } cases[] = {
            {no_end, "malformed record TENSOR"},
            {{.kind = TRAINER_TENSOR}, "a name that can be printed"},
            {{.kind = TRAINER_TENSOR, .u.of.text = "a\033[2J"}, "a name that can be printed"},
            {{.kind = TRAINER_TENSOR, .u.of.text = "\xff"}, "a name that can be printed"},
            {{.kind = TRAINER_TENSOR, .n_dims = 9, .u.of.text = "W"}, "too many dimensions"},
            {{.kind = TRAINER_TENSOR, .n_dims = -1, .u.of.text = "W"}, "too many dimensions"},
            {{.kind = TRAINER_TENSOR, .n_dims = 1, .u.of.text = "W"}, "a dimension is 0"},
            {{.kind = TRAINER_TENSOR, .n_dims = 1, .u.of = {{1 << 30 | 1}, "W"}}, "2^30"},
            {{.kind = TRAINER_TENSOR, .n_dims = 2, .u.of = {{UINT64_C(1) << 32, UINT64_C(1) << 32}, "W"}},
             "2^30"},
            {{.kind = TRAINER_TENSOR, .n_dims = 1, .u.of = {{1 << 30}, "W"}}, "is too much"},
            {{.kind = TRAINER_TENSOR, .u.of.text = "b"}, "tensor 'b' comes twice"},
            {{.kind = TRAINER_TENSOR, .flags = 2, .u.of.text = "W"}, "malformed record TENSOR"},
        };

        for (size_t i = 0; i < N_OF(cases); i++) {
            open_link();
            send_one((struct trainer_record){.kind = TRAINER_OPEN, .n = 2});
            send_tensor("b", 0, 0, 0, false);
            send_one(cases[i].r);
            assert_refused(take(&t, &e), &e, cases[i].why);
            close_link();
        }
    }
}

TEST(descriptors_that_do_not_belong_there_are_refused_and_closed)
{
    const struct trainer_record labeled = {.kind = TRAINER_SHARD, .n = 3, .flags = TRAINER_HAS_LABELS};
    int fd = make_memory(NULL, 8), next = dup(fd), pipes[2];
    struct trainer_record answer;
    struct err e;

    close(next);
    assert_int_equal(pipe(pipes), 0);
    open_link();
    send_with((struct trainer_record){.kind = TRAINER_GRADIENT}, fd);
    assert_refused(go(&answer, &e), &e, "malformed record GRADIENT");
    close_link();
    open_link();
    send_with((struct trainer_record){.kind = TRAINER_SHARD, .n = 3}, fd);
    assert_refused(go(&answer, &e), &e, "malformed record SHARD");
    close_link();
    open_link();
    send_one(labeled);
    assert_refused(go(&answer, &e), &e, "malformed record SHARD");
    close_link();
    open_link();
    send_with(labeled, fd); /* too short */
    assert_refused(go(&answer, &e), &e, "no file of its labels");
    close_link();
    open_link();
    send_with(labeled, pipes[0]);
    assert_refused(go(&answer, &e), &e, "no file of its labels");
    close_link();
    close(pipes[0]);
    close(pipes[1]);
    assert_int_equal(dup(fd), next); /* none was left open */
    close(next);
    close(fd);
}

TEST(metrics_need_names_that_a_table_can_have)
{
    static const char *const names[] = {"", "a,b", "a b", "a\n", "\xff"};
    struct trainer_record answer;
    struct err e;

    for (size_t i = 0; i < N_OF(names); i++) {
        struct trainer_record r = {.kind = TRAINER_METRIC};

        strcpy(r.u.of.text, names[i]);
        open_link();
        send_one(r);
        assert_refused(go(&answer, &e), &e, "logs the metric");
        close_link();
    }
}

TEST(the_end_of_a_program_is_noticed_with_its_own_reason)
{
    struct trainer_record answer;
    struct err e = {0};

    open_link();
    close_program();
    assert_refused(go(&answer, &e), &e, "has ended");
    assert_true(it.link.has_ended);
    trainer_link_stop(&it.link, 0, "all steps are done");
    close_link();

    open_link();
    send_one((struct trainer_record){.kind = TRAINER_FAILED, .u.of.text = "no batches\033[2J"});
    close_program();
    assert_refused(go(&answer, &e), &e, "train.py: no batches?[2J");
    close_link();

    open_link(); /* a reason of two records, then one without its end */
    send_one((struct trainer_record){
        .kind = TRAINER_FAILED, .flags = TRAINER_GOES_ON, .u.of.text = "no batches: "});
    send_one((struct trainer_record){.kind = TRAINER_FAILED, .u.of.text = "give it data"});
    assert_refused(go(&answer, &e), &e, "train.py: no batches: give it data");
    assert_true(it.link.has_failed);
    close_link();

    open_link();
    send_one(
        (struct trainer_record){.kind = TRAINER_FAILED, .flags = TRAINER_GOES_ON, .u.of.text = "no batches"});
    close_program();
    assert_refused(go(&answer, &e), &e, "train.py: no batches");
    close_link();

    open_link(); /* psgd takes no more records than a reason may have */
    for (int i = 0; i < TRAINER_PARTS; i++)
        send_one((struct trainer_record){.kind = TRAINER_FAILED, .flags = TRAINER_GOES_ON, .u.of.text = "a"});
    assert_refused(go(&answer, &e), &e, "train.py: aaaa");
    close_link();

    open_link(); /* a record of psgd's is unread */
    send_one((struct trainer_record){.kind = TRAINER_GRADIENT});
    assert_ok(go(&answer, &e));
    send_one((struct trainer_record){.kind = TRAINER_FAILED, .u.of.text = "no batches"});
    close_program();
    assert_refused(go(&answer, &e), &e, "train.py: no batches");
    close_link();
}

TEST(a_wait_ends_at_its_deadline_or_by_an_interruption)
{
    const struct trainer_record turn = {.kind = TRAINER_GO};
    struct trainer_record answer;
    struct err e;

    open_link();
    assert_int_equal(trainer_link_turn(&it.link, &turn, -1, &answer, clock_now(), &e), ERR_TIMEOUT);
    it.link.cfg.waiting = interrupt;
    assert_int_equal(trainer_link_turn(&it.link, &turn, -1, &answer, INFINITY, &e), ERR_CANCELLED);
    assert_int_equal(it.n_waits, 1);
    close_link();
}

TEST(a_program_that_does_not_read_is_not_waited_for)
{
    struct trainer_record answer;
    struct err e;
    int rc;

    open_link();
    do {
        send_one((struct trainer_record){.kind = TRAINER_GRADIENT});
        rc = go(&answer, &e);
    } while (rc == 0);
    assert_refused(rc, &e, "does not read");
    trainer_link_stop(&it.link, TRAINER_HAS_FAILED, "it does not read");
    close_link();
}

TEST(a_stopped_program_learns_why)
{
    struct trainer_record r;
    char text[TRAINER_TEXT + 8];
    int fd;

    memset(text, 'a', sizeof text);
    strcpy(text + TRAINER_TEXT - 2, "\xc3\xa4");
    open_link();
    trainer_link_stop(&it.link, TRAINER_HAS_FAILED, text);
    r = receive(TRAINER_STOP, &fd);
    assert_int_equal(r.flags, TRAINER_HAS_FAILED | TRAINER_GOES_ON);
    assert_int_equal(strlen(r.u.of.text), TRAINER_TEXT - 2); /* a character is not cut */
    r = receive(TRAINER_STOP, &fd);
    assert_int_equal(r.flags, TRAINER_HAS_FAILED);
    assert_string_equal(r.u.of.text, "\xc3\xa4");
    close_link();
}

/* Until then the program has not answered. */
static int answer_then(void *owner, struct err *e)
{
    (void)owner, (void)e;
    it.n_waits++;
    trainer_link_watch(&it.link, -1);
    send_one((struct trainer_record){.kind = TRAINER_UPDATED, .n = 8});
    return 0;
}

TEST(a_wait_for_a_program_also_looks_at_another_descriptor)
{
    const struct trainer_record turn = {.kind = TRAINER_GO};
    struct trainer_record answer;
    struct err e;
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    open_link();
    it.link.cfg.other = answer_then;
    trainer_link_watch(&it.link, fds[0]);
    assert_ok(trainer_link_turn(&it.link, &turn, -1, &answer, soon(), &e));
    assert_true(it.n_waits == 1 && answer.n == 8);
    close_link();
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_programs_tensors_are_taken_in_their_order),
        cmocka_unit_test(a_layout_that_is_not_the_jobs_is_refused_with_the_difference),
        cmocka_unit_test(frozen_tensors_are_apart_and_have_checksums),
        cmocka_unit_test(frozen_tensors_that_are_not_the_jobs_are_refused_with_the_difference),
        cmocka_unit_test(a_program_that_is_accepted_gets_the_memory_and_becomes_ready),
        cmocka_unit_test(each_turn_takes_its_answers_and_no_others),
        cmocka_unit_test(metrics_do_not_keep_the_caller_from_being_interrupted),
        cmocka_unit_test(metrics_and_shards_are_served_before_an_answer),
        cmocka_unit_test(malformed_records_are_refused),
        cmocka_unit_test(descriptors_that_do_not_belong_there_are_refused_and_closed),
        cmocka_unit_test(metrics_need_names_that_a_table_can_have),
        cmocka_unit_test(the_end_of_a_program_is_noticed_with_its_own_reason),
        cmocka_unit_test(a_wait_ends_at_its_deadline_or_by_an_interruption),
        cmocka_unit_test(a_wait_for_a_program_also_looks_at_another_descriptor),
        cmocka_unit_test(a_program_that_does_not_read_is_not_waited_for),
        cmocka_unit_test(a_stopped_program_learns_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
