/* The other end of the socket is the test's: what psgd sends waits in the socket until a call of the program
 * takes it, so that one thread plays both. */
#include "shared/trainer/psgd_trainer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "shared/base/fd_pass.h"
#include "shared/trainer/trainer_wire.h"
#include "tests/unit/unit.h"

enum { N_W = 6, N_B = 3, N_STAT = 2, N_PARAMS = N_W + N_B + N_STAT };

static const struct psgd_tensor layout[] = {
    {"W", 2, {2, 3}, false}, {"mean", 1, {N_STAT}, true}, {"b", 1, {N_B}, false}};

/* psgd's end. */
static struct {
    int socket, memory;
    float *vectors; /* params, grads, combined: a page each */
    uint64_t n_sent, n_taken;
    int n_fds; /* of this process before the test */
} fake;

static struct psgd *p; /* the program's end */

static int count_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static int make_file(size_t bytes, int seals)
{
    int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static int begin(void **state)
{
    char text[16];
    int fds[2];

    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.n_fds = count_fds();
    fake.memory = make_file(3 * TRAINER_PAGE, F_SEAL_SHRINK | F_SEAL_GROW);
    fake.vectors = mmap(NULL, 3 * TRAINER_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fake.memory, 0);
    assert_true(fake.vectors != MAP_FAILED);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
    fake.socket = fds[0];
    snprintf(text, sizeof text, "%d", fds[1]);
    assert_int_equal(setenv(TRAINER_ENV, text, 1), 0);
    p = NULL;
    return 0;
}

static void hang_up(void)
{
    if (fake.socket >= 0)
        close(fake.socket);
    fake.socket = -1;
}

/* The library has left no descriptor open, whatever it received. */
static int end(void **state)
{
    (void)state;
    psgd_close(p);
    hang_up();
    munmap(fake.vectors, 3 * TRAINER_PAGE);
    close(fake.memory);
    return count_fds() == fake.n_fds ? 0 : -1;
}

static void put_with(struct trainer_record r, int fd)
{
    r.version = TRAINER_VERSION;
    r.sequence = fake.n_sent++;
    assert_int_equal(fd_pass_send(fake.socket, &r, sizeof r, fd, MSG_DONTWAIT), sizeof r);
}

static void put(enum trainer_kind kind, uint64_t step, uint32_t flags)
{
    put_with((struct trainer_record){.kind = kind, .step = step, .lr = 1, .flags = flags}, -1);
}

static void put_text(enum trainer_kind kind, const char *text, uint32_t flags)
{
    struct trainer_record r = {.kind = kind, .flags = flags};

    snprintf(r.u.of.text, sizeof r.u.of.text, "%s", text);
    put_with(r, -1);
}

/* A record with a file, which the test need not keep. */
static void put_file(struct trainer_record r, const void *bytes, size_t n)
{
    int fd = make_file(n, 0);

    assert_int_equal(pwrite(fd, bytes, n, 0), n);
    put_with(r, fd);
    close(fd);
}

/* The program's next record, which has this kind. */
static struct trainer_record take(enum trainer_kind kind)
{
    struct trainer_record r;
    int fd;

    assert_int_equal(fd_pass_receive(fake.socket, &r, sizeof r, &fd, MSG_DONTWAIT), sizeof r);
    assert_int_equal(fd, -1);
    assert_int_equal(r.kind, kind);
    assert_int_equal(r.version, TRAINER_VERSION);
    assert_int_equal(r.sequence, fake.n_taken++);
    return r;
}

static void take_none(void)
{
    char byte;

    assert_int_equal(recv(fake.socket, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

static void take_failure(const char *words)
{
    struct trainer_record r = take(TRAINER_FAILED);

    assert_true(strstr(r.u.of.text, words) || (print_error("%s\n", r.u.of.text), false));
}

static void assert_said(const char *words)
{
    assert_true(strstr(psgd_error(), words) || (print_error("%s\n", psgd_error()), false));
}

static struct trainer_record accepted(uint32_t flags)
{
    return (struct trainer_record){.kind = TRAINER_ACCEPTED,
                                   .flags = flags,
                                   .u.accepted = {.node = 1,
                                                  .n_nodes = 2,
                                                  .n_params = N_PARAMS,
                                                  .n_trained = N_W + N_B,
                                                  .grads_at = TRAINER_PAGE,
                                                  .combined_at = 2 * TRAINER_PAGE,
                                                  .bytes = 3 * TRAINER_PAGE,
                                                  .seed = 7,
                                                  .n_steps = 10,
                                                  .every = 4}};
}

static int open_program(void)
{
    return psgd_open(&p, layout, N_OF(layout));
}

/* The program is accepted, by a record with these flags, and what it sent was taken. */
static void open_accepted(uint32_t flags)
{
    put_with(accepted(flags), fake.memory);
    assert_int_equal(open_program(), 0);
    take(TRAINER_OPEN);
    for (size_t i = 0; i < N_OF(layout); i++)
        take(TRAINER_TENSOR);
}

/* The same, and it stands in a turn of this kind. */
static void open_in_turn(enum trainer_kind kind, uint32_t flags)
{
    open_accepted(flags);
    put(kind, 0, TRAINER_TAKES_PART);
    assert_true(psgd_next(p) > PSGD_STOP);
    take(TRAINER_VALUES);
    take(TRAINER_READY);
}

TEST(a_program_without_a_job_is_alone)
{
    const struct psgd_data data = {.n_rows = 5};
    uint32_t *index;
    size_t n;

    unsetenv(TRAINER_ENV);
    hang_up();
    fake.n_fds++; /* the program's end of a socket that it does not look for */
    assert_int_equal(open_program(), 0);
    assert_true(psgd_is_alone(p));
    assert_false(psgd_has_values(p));
    assert_int_equal(psgd_n_params(p), N_PARAMS);
    assert_int_equal(psgd_plan(p)->n_nodes, 1);
    assert_int_equal(psgd_plan(p)->node, 0);
    assert_false(psgd_plan(p)->takes_gradients);
    for (size_t i = 0; i < N_PARAMS; i++)
        assert_true(psgd_params(p)[i] == 0 && psgd_grads(p)[i] == 0);
    assert_int_equal(psgd_shard(p, &data, &index, &n), 0);
    assert_int_equal(n, 5);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(index[i], i);
    free(index);
    for (uint64_t step = 0; step < 1000; step++) {
        assert_int_equal(psgd_next(p), PSGD_GO);
        assert_int_equal(psgd_plan(p)->step, step);
        assert_true(psgd_plan(p)->takes_part && !psgd_plan(p)->has_changed);
        assert_int_equal(psgd_log(p, "f1", 0.5), 0);
        if (step % 2) {
            assert_ptr_equal(psgd_gradient(p, 1, 8, 0.1), psgd_grads(p));
            assert_int_equal(psgd_stepped(p), 0);
        } else {
            assert_int_equal(psgd_stepped_by(p, 1, 8, 0.1), 0);
        }
    }
    assert_int_equal(psgd_finish(p), 0);
    assert_string_equal(psgd_why(p), "");
    assert_int_equal(psgd_next(p), PSGD_STOP);
    assert_string_equal(psgd_why(p), "the program has no more data");
    assert_int_equal(psgd_next(p), PSGD_STOP);
}

TEST(the_tensors_are_announced_and_the_plan_is_the_jobs)
{
    const struct psgd_plan *plan;
    struct trainer_record r;

    fake.vectors[0] = 3;
    put_with(accepted(TRAINER_TAKES_GRADIENTS), fake.memory);
    assert_int_equal(open_program(), 0);
    assert_int_equal(take(TRAINER_OPEN).n, N_OF(layout));
    for (size_t i = 0; i < N_OF(layout); i++) {
        r = take(TRAINER_TENSOR);
        assert_string_equal(r.u.of.text, layout[i].name);
        assert_int_equal(r.n_dims, layout[i].n_dims);
        for (int k = 0; k < TRAINER_DIMS; k++)
            assert_int_equal(r.u.of.shape[k], k < layout[i].n_dims ? layout[i].shape[k] : 0);
        assert_int_equal(r.flags, layout[i].is_statistic ? TRAINER_STATISTIC : 0);
    }
    take_none();
    plan = psgd_plan(p);
    assert_true(plan->node == 1 && plan->n_nodes == 2 && plan->seed == 7 && plan->n_steps == 10);
    assert_true(plan->every == 4 && plan->step == 0 && plan->takes_gradients);
    assert_true(!psgd_is_alone(p) && psgd_has_values(p));
    assert_true(psgd_params(p)[0] == 3); /* the job's value */
    psgd_params(p)[1] = 4;
    assert_true(fake.vectors[1] == 4);
}

TEST(three_steps_update_by_the_gradient_that_psgd_gives)
{
    const size_t per_page = TRAINER_PAGE / sizeof(float);
    struct trainer_record r;

    open_accepted(TRAINER_TAKES_GRADIENTS);
    psgd_batches(p, 25);
    for (uint64_t step = 0; step < 3; step++) {
        const bool is_combined = step != 1, takes_part = step != 2;

        put(TRAINER_GO, step, (takes_part ? TRAINER_TAKES_PART : 0) | (step ? TRAINER_HAS_CHANGED : 0));
        assert_int_equal(psgd_next(p), PSGD_GO);
        if (step == 0) {
            take(TRAINER_VALUES);
            assert_int_equal(take(TRAINER_READY).n, 25);
        }
        assert_int_equal(psgd_plan(p)->step, step);
        assert_int_equal(psgd_plan(p)->takes_part, takes_part);
        assert_int_equal(psgd_plan(p)->has_changed, step != 0);
        psgd_grads(p)[2] = 5;
        psgd_accuracy(p, 0.25);
        put(TRAINER_UPDATE, 0, is_combined ? TRAINER_COMBINED : 0);
        assert_ptr_equal(psgd_gradient(p, 0.5, 64, 0.1),
                         is_combined ? psgd_params(p) + 2 * per_page : psgd_grads(p));
        r = take(TRAINER_GRADIENT);
        assert_true(r.step == step && r.n == 64 && r.loss == 0.5 && r.accuracy == 0.25 && r.lr == 0.1);
        assert_true(fake.vectors[per_page + 2] == 5);
        take_none();
        assert_int_equal(psgd_stepped(p), 0);
        assert_int_equal(take(TRAINER_UPDATED).step, step);
    }
    put_text(TRAINER_STOP, "all steps are done", 0);
    assert_int_equal(psgd_next(p), PSGD_STOP);
    assert_string_equal(psgd_why(p), "all steps are done");
    take_none();
    psgd_close(p); /* after the job's end: no failure */
    p = NULL;
    assert_int_equal(recv(fake.socket, &r, sizeof r, MSG_DONTWAIT), 0);
}

TEST(a_rule_for_parameters_needs_no_answer_within_a_step)
{
    struct trainer_record r;

    open_in_turn(TRAINER_GO, 0);
    assert_ptr_equal(psgd_gradient(p, 0.5, 64, 0.1), psgd_grads(p));
    take_none();
    assert_int_equal(psgd_stepped(p), 0);
    r = take(TRAINER_UPDATED);
    assert_true(r.n == 64 && r.loss == 0.5 && isnan(r.accuracy) && r.lr == 0.1 && r.step == 0);
    put(TRAINER_GO, 1, TRAINER_TAKES_PART);
    assert_int_equal(psgd_next(p), PSGD_GO);
    psgd_accuracy(p, 0.75);
    assert_int_equal(psgd_stepped_by(p, 0.25, 32, 0.2), 0);
    r = take(TRAINER_UPDATED);
    assert_true(r.n == 32 && r.loss == 0.25 && r.accuracy == 0.75 && r.lr == 0.2 && r.step == 1);
    put(TRAINER_GO, 2, TRAINER_TAKES_PART);
    assert_int_equal(psgd_next(p), PSGD_GO);
    assert_int_equal(psgd_stepped_by(p, 0.25, 32, 0.2), 0);
    assert_true(isnan(take(TRAINER_UPDATED).accuracy)); /* not that of an earlier step */
}

static void put_factor(enum trainer_kind kind, uint64_t step, double factor)
{
    put_with((struct trainer_record){.kind = kind, .step = step, .lr = factor, .flags = TRAINER_TAKES_PART},
             -1);
}

TEST(the_rules_factor_on_the_learning_rate_is_that_of_the_last_record)
{
    open_in_turn(TRAINER_GO, TRAINER_TAKES_GRADIENTS);
    assert_true(psgd_lr_factor(p) == 1);
    put_factor(TRAINER_UPDATE, 0, 0.5);
    assert_non_null(psgd_gradient(p, 1, 8, 0.1));
    assert_true(psgd_lr_factor(p) == 0.5);
    assert_int_equal(psgd_stepped(p), 0);
    take(TRAINER_GRADIENT);
    assert_true(take(TRAINER_UPDATED).lr == 0.1); /* without it: psgd knows it */
    assert_int_equal(end(NULL), 0);

    assert_int_equal(begin(NULL), 0);
    open_accepted(0);
    put_factor(TRAINER_GO, 0, 0.25);
    assert_int_equal(psgd_next(p), PSGD_GO);
    assert_true(psgd_lr_factor(p) == 0.25);
    assert_int_equal(psgd_stepped_by(p, 1, 8, 0.1), 0);
    put_factor(TRAINER_GO, 1, 1);
    assert_int_equal(psgd_next(p), PSGD_GO);
    assert_int_equal(psgd_stepped_by(p, 1, 8, 0.1), 0); /* who does not ask misses nothing */
}

TEST(a_program_that_does_not_ask_for_a_factor_fails)
{
    open_in_turn(TRAINER_GO, TRAINER_TAKES_GRADIENTS);
    assert_true(psgd_lr_factor(p) == 1);
    put_factor(TRAINER_UPDATE, 0, 0.5);
    assert_non_null(psgd_gradient(p, 1, 8, 0.1));
    assert_int_equal(psgd_stepped(p), -1);
    assert_said("here by 0.5: multiply that of each update by psgd_lr_factor()");
    take(TRAINER_GRADIENT);
    take_failure("the job's rule changes the learning rate");
}

TEST(a_factor_that_is_no_number_is_refused)
{
    open_accepted(0);
    put_factor(TRAINER_GO, 0, NAN);
    assert_int_equal(psgd_next(p), -1);
    assert_said("a factor on the learning rate that is no number");
}

TEST(params_are_where_psgd_reads_them)
{
    open_in_turn(TRAINER_GO, 0);
    assert_int_equal(psgd_stepped_by(p, 1, 8, 0.1), 0);
    take(TRAINER_UPDATED);
    put(TRAINER_STORE, 0, 0);
    put(TRAINER_GO, 1, TRAINER_TAKES_PART);
    assert_int_equal(psgd_next(p), PSGD_GO);
    take(TRAINER_STORED);
}

TEST(a_rule_that_takes_gradients_needs_each_of_them)
{
    open_in_turn(TRAINER_GO, TRAINER_TAKES_GRADIENTS);
    assert_int_equal(psgd_stepped_by(p, 1, 8, 0.1), -1);
    assert_said("call psgd_gradient before the update");
    take_failure("the job's rule combines or changes gradients");
}

TEST(an_evaluation_is_made_or_left_out)
{
    struct trainer_record r;

    open_in_turn(TRAINER_EVALUATE, 0);
    assert_int_equal(psgd_evaluated(p, 0.5, 0.75, 1000), 0);
    r = take(TRAINER_EVALUATED);
    assert_true(r.n == 1000 && r.loss == 0.5 && r.accuracy == 0.75);
    put(TRAINER_EVALUATE, 4, TRAINER_HAS_CHANGED);
    assert_int_equal(psgd_next(p), PSGD_EVALUATE);
    take_none();
    assert_int_equal(psgd_plan(p)->step, 4);
    assert_true(psgd_plan(p)->has_changed);
    put(TRAINER_GO, 4, 0);
    assert_int_equal(psgd_next(p), PSGD_GO);
    assert_int_equal(take(TRAINER_EVALUATED).n, 0);
}

TEST(the_programs_state_is_written_and_read_by_descriptors)
{
    int saved = make_file(0, 0);
    char text[5] = "";

    open_accepted(0);
    put_file((struct trainer_record){.kind = TRAINER_RESTORE}, "adam", 4);
    assert_int_equal(psgd_next(p), PSGD_RESTORE);
    take(TRAINER_VALUES);
    take(TRAINER_READY);
    assert_int_equal(read(psgd_state_fd(p), text, sizeof text), 4);
    assert_string_equal(text, "adam");
    put_with((struct trainer_record){.kind = TRAINER_SAVE}, saved);
    assert_int_equal(psgd_next(p), PSGD_SAVE);
    take(TRAINER_RESTORED);
    assert_int_equal(write(psgd_state_fd(p), "sgd", 3), 3);
    put(TRAINER_GO, 0, 0);
    assert_int_equal(psgd_next(p), PSGD_GO);
    take(TRAINER_SAVED);
    assert_int_equal(psgd_state_fd(p), -1);
    assert_int_equal(pread(saved, text, sizeof text, 0), 3);
    close(saved);
}

TEST(a_shard_is_a_copy_of_psgds_rows)
{
    static const int32_t labels[] = {4, 1, 2, 0};
    static const uint32_t some[] = {3, 0}, one[] = {2};
    struct psgd_data data = {.n_rows = 4, .labels = labels, .batch = 2, .epoch = 7};
    struct trainer_record r;
    uint32_t *first, *second;
    int32_t sent[N_OF(labels)];
    size_t n;
    int fd;

    open_accepted(0);
    put_file((struct trainer_record){.kind = TRAINER_SHARDED, .n = 2}, some, sizeof some);
    put_file((struct trainer_record){.kind = TRAINER_SHARDED, .n = 1}, one, sizeof one);
    assert_int_equal(psgd_shard(p, &data, &first, &n), 0);
    assert_int_equal(n, 2);
    data = (struct psgd_data){.n_rows = 3};
    assert_int_equal(psgd_shard(p, &data, &second, &n), 0);
    assert_true(n == 1 && second[0] == 2 && first[0] == 3 && first[1] == 0);
    take(TRAINER_VALUES);
    assert_int_equal(fd_pass_receive(fake.socket, &r, sizeof r, &fd, 0), sizeof r);
    fake.n_taken++;
    assert_true(r.kind == TRAINER_SHARD && r.n == 4 && r.flags == TRAINER_HAS_LABELS && r.step == 7);
    assert_true(r.n_dims == 1 && r.u.of.shape[0] == 2);
    assert_int_equal(pread(fd, sent, sizeof sent, 0), sizeof labels);
    assert_memory_equal(sent, labels, sizeof labels);
    assert_int_equal(pwrite(fd, sent, 1, 0), -1); /* sealed */
    close(fd);
    r = take(TRAINER_SHARD);
    assert_true(r.n == 3 && r.flags == 0 && r.step == 0 && r.n_dims == 0);
    free(first);
    free(second);
    put_text(TRAINER_REFUSED, "dirichlet needs labels", 0);
    assert_int_equal(psgd_shard(p, &data, &first, &n), -1);
    assert_said("dirichlet needs labels");
}

TEST(for_a_finished_program_each_later_step_is_answered_where_the_rule_takes_no_gradients)
{
    open_in_turn(TRAINER_GO, 0);
    assert_int_equal(psgd_finish(p), 0);
    take(TRAINER_FINISHED);
    put(TRAINER_GO, 1, 0);
    put(TRAINER_EVALUATE, 2, 0);
    assert_int_equal(psgd_next(p), PSGD_EVALUATE);
    assert_int_equal(take(TRAINER_UPDATED).n, 0);
    take(TRAINER_UPDATED);
    put(TRAINER_GO, 2, 0);
    put_text(TRAINER_STOP, "all are done", 0);
    assert_int_equal(psgd_next(p), PSGD_STOP);
    take(TRAINER_EVALUATED);
    take(TRAINER_UPDATED);
}

TEST(a_finished_program_follows_the_others_where_the_rule_takes_gradients)
{
    open_in_turn(TRAINER_GO, TRAINER_TAKES_GRADIENTS);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(psgd_finish(p), 0);
        assert_false(psgd_plan(p)->takes_part);
        put(TRAINER_UPDATE, 0, TRAINER_COMBINED);
        assert_non_null(psgd_gradient(p, 1, 8, 0.1));
        if (k == 0)
            take(TRAINER_FINISHED);
        assert_int_equal(take(TRAINER_GRADIENT).n, 0);
        assert_int_equal(psgd_stepped(p), 0);
        take(TRAINER_UPDATED);
        put(TRAINER_GO, 1, 0);
        assert_int_equal(psgd_next(p), PSGD_GO);
    }
    assert_int_equal(psgd_next(p), -1); /* it would fall behind them */
    assert_said("psgd_gradient with 0 samples");
}

TEST(a_finish_after_the_gradient_leaves_the_step_complete)
{
    open_in_turn(TRAINER_GO, 0);
    assert_non_null(psgd_gradient(p, 1, 8, 0.1));
    assert_int_equal(psgd_finish(p), 0);
    take_none();
    assert_int_equal(psgd_stepped(p), 0);
    take(TRAINER_UPDATED);
    put(TRAINER_GO, 1, 0);
    put_text(TRAINER_STOP, "all are done", 0);
    assert_int_equal(psgd_next(p), PSGD_STOP);
    take(TRAINER_FINISHED);
    take(TRAINER_UPDATED);
}

TEST(metrics_have_their_step)
{
    struct trainer_record r;

    open_in_turn(TRAINER_GO, 0);
    assert_int_equal(psgd_stepped_by(p, 1, 8, 0.1), 0);
    take(TRAINER_UPDATED);
    assert_int_equal(psgd_log(p, "f1", 0.5), 0);
    r = take(TRAINER_METRIC);
    assert_string_equal(r.u.of.text, "f1");
    assert_true(r.loss == 0.5 && r.step == 1);
    assert_int_equal(psgd_log(p, "top 5", 0.5), -1);
    assert_said("psgd_log got the name 'top 5': a name is 1 to 64 of");
}

/* Each call that waits, in a program that psgd has just accepted. */
static int wait_in_open(void)
{
    return open_program();
}

static int wait_in_shard(void)
{
    const struct psgd_data data = {.n_rows = 4};
    uint32_t *index;
    size_t n;

    return psgd_shard(p, &data, &index, &n);
}

static int wait_in_next(void)
{
    return psgd_next(p);
}

static int wait_in_gradient(void)
{
    return psgd_gradient(p, 1, 8, 0.1) ? PSGD_GO : -1;
}

static const struct {
    int (*call)(void);
    const char *wanted;
} waits[] = {{wait_in_open, "whether it accepts the tensors"},
             {wait_in_shard, "the shard"},
             {wait_in_next, "what comes next"},
             {wait_in_gradient, "the gradient of the update"}};

/* Brings a new program before the i-th call. */
static void reach_wait(size_t i)
{
    begin(NULL);
    if (waits[i].call == wait_in_gradient)
        open_in_turn(TRAINER_GO, TRAINER_TAKES_GRADIENTS);
    else if (waits[i].call != wait_in_open)
        open_accepted(TRAINER_TAKES_GRADIENTS);
}

TEST(the_jobs_end_ends_each_wait)
{
    for (size_t i = 0; i < N_OF(waits); i++)
        for (uint32_t flags = 0; flags <= TRAINER_HAS_FAILED; flags += TRAINER_HAS_FAILED) {
            const bool is_next = waits[i].call == wait_in_next;

            reach_wait(i);
            put_text(TRAINER_STOP, "node 2 is lost", flags);
            assert_int_equal(waits[i].call(), is_next && !flags ? PSGD_STOP : -1);
            if (!is_next || flags)
                assert_said(flags ? "the job has failed: node 2 is lost"
                                  : "the job has ended: node 2 is lost");
            if (p) {
                assert_string_equal(psgd_why(p), "node 2 is lost");
                assert_int_equal(psgd_stepped(p), -1);
                assert_said("node 2 is lost");
                assert_int_equal(psgd_next(p), flags ? -1 : PSGD_STOP);
            }
            assert_int_equal(end(NULL), 0);
        }
}

TEST(the_end_of_psgds_process_is_an_error_of_each_wait)
{
    for (size_t i = 0; i < N_OF(waits); i++) {
        reach_wait(i);
        /* It ends after it has received what the program sends. */
        assert_int_equal(shutdown(fake.socket, SHUT_WR), 0);
        assert_int_equal(waits[i].call(), -1);
        assert_said("psgd's process for this node has ended");
        if (p) {
            assert_int_equal(psgd_next(p), -1);
            assert_said("psgd's process for this node has ended");
        }
        assert_int_equal(end(NULL), 0);
        /* Before. */
        reach_wait(i);
        hang_up();
        assert_int_equal(waits[i].call(), -1);
        assert_said("psgd's process for this node has ended");
        assert_int_equal(end(NULL), 0);
    }
}

TEST(what_psgd_said_before_it_ended_is_the_error)
{
    for (size_t i = 0; i < N_OF(waits); i++) {
        reach_wait(i);
        if (p) /* Linux then reports a reset connection first, because psgd has not read it */
            assert_int_equal(psgd_log(p, "f1", 0.5), 0);
        put(TRAINER_METRIC, 0, 0);
        put_text(TRAINER_STOP, "out of memory", TRAINER_HAS_FAILED);
        hang_up();
        assert_int_equal(waits[i].call(), -1);
        assert_said("out of memory");
        assert_int_equal(end(NULL), 0);
    }
    reach_wait(0);
    put_text(TRAINER_REFUSED, "too many tensors", 0);
    hang_up();
    assert_int_equal(open_program(), -1);
    assert_said("psgd refuses the program: too many tensors");
    assert_int_equal(end(NULL), 0);
}

TEST(a_refusal_is_the_sentence_of_the_error)
{
    put_text(TRAINER_REFUSED, "'W' is (2, 3) here and\033[2J(3, 3) on node 1", 0);
    assert_int_equal(open_program(), -1);
    assert_null(p);
    assert_said("psgd refuses the program: 'W' is (2, 3) here and?[2J(3, 3) on node 1");
    take(TRAINER_OPEN);
}

/* Changes of an ACCEPTED that is right otherwise. */
static void no_node(struct trainer_accepted *a)
{
    a->node = 2;
}

static void negative_node(struct trainer_accepted *a)
{
    a->node = -1;
}

static void no_nodes(struct trainer_accepted *a)
{
    a->node = a->n_nodes = 0;
}

static void never_exchanges(struct trainer_accepted *a)
{
    a->every = 0;
}

static void beyond_its_end(struct trainer_accepted *a)
{
    a->n_done = 11;
}

static void more_params(struct trainer_accepted *a)
{
    a->n_params++;
}

static void huge_params(struct trainer_accepted *a)
{
    a->n_params = UINT64_MAX / sizeof(float) + 1 + N_PARAMS; /* its bytes wrap around */
}

static void fewer_trained(struct trainer_accepted *a)
{
    a->n_trained--;
}

static void grads_in_params(struct trainer_accepted *a)
{
    a->grads_at = 0;
}

static void grads_not_aligned(struct trainer_accepted *a)
{
    a->grads_at += sizeof(float);
}

static void grads_behind_combined(struct trainer_accepted *a)
{
    a->grads_at = 2 * TRAINER_PAGE;
    a->combined_at = TRAINER_PAGE;
}

static void grads_far_away(struct trainer_accepted *a)
{
    a->grads_at = UINT64_MAX - TRAINER_PAGE + 1;
}

static void combined_in_grads(struct trainer_accepted *a)
{
    a->combined_at = a->grads_at;
}

static void combined_not_aligned(struct trainer_accepted *a)
{
    a->combined_at--;
}

static void combined_far_away(struct trainer_accepted *a)
{
    a->combined_at = UINT64_MAX - TRAINER_PAGE + 1;
}

static void combined_at_the_end(struct trainer_accepted *a)
{
    a->combined_at = a->bytes;
}

static void huge_memory(struct trainer_accepted *a)
{
    a->bytes = UINT64_MAX;
}

static void memory_beyond_the_file(struct trainer_accepted *a)
{
    a->bytes += TRAINER_PAGE;
}

static void no_memory(struct trainer_accepted *a)
{
    a->bytes = 0;
}

TEST(an_accepted_program_checks_every_number)
{
    static void (*const faults[])(struct trainer_accepted *) = {no_node,
                                                                negative_node,
                                                                no_nodes,
                                                                never_exchanges,
                                                                beyond_its_end,
                                                                more_params,
                                                                huge_params,
                                                                fewer_trained,
                                                                grads_in_params,
                                                                grads_not_aligned,
                                                                grads_behind_combined,
                                                                grads_far_away,
                                                                combined_in_grads,
                                                                combined_not_aligned,
                                                                combined_far_away,
                                                                combined_at_the_end,
                                                                huge_memory,
                                                                memory_beyond_the_file,
                                                                no_memory};

    for (size_t i = 0; i < N_OF(faults); i++) {
        struct trainer_record r = accepted(0);

        begin(NULL);
        faults[i](&r.u.accepted);
        put_with(r, fake.memory);
        assert_true(open_program() < 0 || (print_error("fault %zu is accepted\n", i), false));
        assert_null(p);
        assert_true(strstr(psgd_error(), "psgd has sent") || strstr(psgd_error(), "psgd has accepted"));
        take(TRAINER_OPEN);
        for (size_t k = 0; k < N_OF(layout); k++)
            take(TRAINER_TENSOR);
        take(TRAINER_FAILED);
        assert_int_equal(end(NULL), 0);
    }
}

TEST(memory_that_could_be_cut_off_is_refused)
{
    int pipes[2];

    assert_int_equal(pipe(pipes), 0);
    for (int i = 0; i < 3; i++) {
        int fd = i == 0   ? make_file(3 * TRAINER_PAGE, 0) /* not sealed */
                 : i == 1 ? make_file(3 * TRAINER_PAGE - 1, F_SEAL_SHRINK)
                          : dup(pipes[0]);

        begin(NULL);
        put_with(accepted(0), fd);
        close(fd);
        assert_int_equal(open_program(), -1);
        assert_said("the memory that psgd has sent does not hold three vectors of 11 parameters");
        fake.n_fds--; /* of `fd`, which begin() has counted */
        assert_int_equal(end(NULL), 0);
    }
    close(pipes[0]);
    close(pipes[1]);
}

TEST(a_record_that_does_not_belong_to_a_wait_is_refused)
{
    static const uint32_t kinds[] = {0,
                                     TRAINER_OPEN,
                                     TRAINER_FAILED,
                                     TRAINER_ACCEPTED,
                                     TRAINER_SHARDED,
                                     TRAINER_GO,
                                     TRAINER_UPDATE,
                                     TRAINER_EVALUATE,
                                     TRAINER_SAVE,
                                     TRAINER_RESTORE,
                                     TRAINER_STORE + 1,
                                     UINT32_MAX};
    static const uint32_t right[][4] = {{TRAINER_ACCEPTED},
                                        {TRAINER_SHARDED},
                                        {TRAINER_GO, TRAINER_EVALUATE, TRAINER_SAVE, TRAINER_RESTORE},
                                        {TRAINER_UPDATE}};

    for (size_t i = 0; i < N_OF(waits); i++)
        for (size_t k = 0; k < N_OF(kinds); k++) {
            const uint32_t kind = kinds[k];
            const bool carries = kind == TRAINER_ACCEPTED || kind == TRAINER_SHARDED ||
                                 kind == TRAINER_SAVE || kind == TRAINER_RESTORE;

            if (kind &&
                (kind == right[i][0] || kind == right[i][1] || kind == right[i][2] || kind == right[i][3]))
                continue;
            reach_wait(i);
            put_with((struct trainer_record){.kind = kind}, carries ? fake.memory : -1);
            assert_int_equal(waits[i].call(), -1);
            assert_said(waits[i].wanted);
            assert_int_equal(end(NULL), 0);
        }
}

TEST(a_malformed_record_is_refused_in_each_wait)
{
    static const char *const words[] = {"of another size",
                                        "of another size",
                                        "of another version",
                                        "out of sequence",
                                        "a text without an end",
                                        "without its descriptor",
                                        "a descriptor with a record that needs none"};

    for (size_t i = 0; i < N_OF(waits); i++)
        for (size_t k = 0; k < N_OF(words); k++) {
            struct {
                struct trainer_record r;
                char more;
            } packet = {.r = {.kind = TRAINER_STOP, .version = TRAINER_VERSION}};
            size_t size = sizeof packet.r;
            int fd = -1;

            reach_wait(i);
            packet.r.sequence = fake.n_sent;
            switch (k) {
            case 0:
                size--;
                break;
            case 1:
                size++;
                break;
            case 2:
                packet.r.version++;
                break;
            case 3:
                packet.r.sequence++;
                break;
            case 4:
                memset(packet.r.u.of.text, 'x', sizeof packet.r.u.of.text);
                break;
            case 5:
                packet.r.kind = TRAINER_SAVE;
                break;
            default:
                fd = fake.memory;
            }
            assert_int_equal(fd_pass_send(fake.socket, &packet, size, fd, 0), size);
            assert_int_equal(waits[i].call(), -1);
            assert_said(words[k]);
            assert_int_equal(end(NULL), 0);
        }
}

TEST(several_descriptors_in_a_record_are_closed)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct trainer_record r = accepted(0);
    struct iovec v = {.iov_base = &r, .iov_len = sizeof r};
    struct msghdr h = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(2 * sizeof(int))};
    int both[2] = {fake.memory, fake.socket};

    r.version = TRAINER_VERSION;
    control.head.cmsg_len = CMSG_LEN(sizeof both);
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    memcpy(CMSG_DATA(&control.head), both, sizeof both);
    assert_int_equal(sendmsg(fake.socket, &h, 0), sizeof r);
    fake.n_sent++;
    assert_int_equal(open_program(), 0);
}

TEST(a_step_beyond_the_job_is_refused)
{
    static const struct {
        enum trainer_kind kind;
        uint64_t step;
        int what;
    } cases[] = {{TRAINER_GO, 9, PSGD_GO},
                 {TRAINER_GO, 10, -1},
                 {TRAINER_GO, UINT64_MAX, -1},
                 {TRAINER_EVALUATE, 10, PSGD_EVALUATE},
                 {TRAINER_EVALUATE, 11, -1}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        begin(NULL);
        open_accepted(0);
        put(cases[i].kind, cases[i].step, 0);
        assert_int_equal(psgd_next(p), cases[i].what);
        if (cases[i].what < 0)
            assert_said("a job of 10");
        assert_int_equal(end(NULL), 0);
    }
}

TEST(a_shard_that_does_not_fit_is_refused)
{
    static const uint32_t outside[] = {0, 4}, inside[] = {0, 3};
    static const struct {
        uint64_t n;
        const uint32_t *rows;
        size_t n_rows;
        const char *words;
    } cases[] = {{2, outside, 2, "row 4 of 4 rows"},
                 {2, inside, 1, "shorter than its 2 rows"},
                 {5, inside, 2, "more than its 4 rows"},
                 {UINT64_MAX, inside, 2, "more than its 4 rows"},
                 {UINT64_MAX / sizeof(uint32_t) + 2, inside, 2, "more than its 4 rows"}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        reach_wait(1);
        put_file((struct trainer_record){.kind = TRAINER_SHARDED, .n = cases[i].n}, cases[i].rows,
                 cases[i].n_rows * sizeof(uint32_t));
        assert_int_equal(wait_in_shard(), -1);
        assert_said(cases[i].words);
        assert_int_equal(end(NULL), 0);
    }
}

TEST(a_shard_or_state_that_is_no_file_is_refused)
{
    for (size_t i = 1; i <= 2; i++) {
        reach_wait(i);
        put_with((struct trainer_record){.kind = i == 1 ? TRAINER_SHARDED : TRAINER_SAVE}, fake.socket);
        assert_int_equal(waits[i].call(), -1);
        assert_said(i == 1 ? "a shard that is no file" : "no file for the program's state");
        assert_int_equal(end(NULL), 0);
    }
}

static void next_twice(void)
{
    psgd_next(p);
}

static void gradient_first(void)
{
    psgd_gradient(p, 1, 8, 0.1);
}

static void stepped(void)
{
    psgd_stepped(p);
}

static void evaluated(void)
{
    psgd_evaluated(p, 1, NAN, 8);
}

static void shard(void)
{
    wait_in_shard();
}

TEST(a_call_out_of_turn_ends_the_session_with_a_sentence)
{
    static const struct {
        enum trainer_kind turn; /* 0: before psgd_next */
        bool is_answered;
        void (*call)(void);
        const char *words;
    } cases[] = {{0, false, gradient_first, "psgd_gradient was called before the first psgd_next"},
                 {0, false, evaluated, "psgd_evaluated was called before the first psgd_next"},
                 {TRAINER_GO, false, next_twice, "psgd_next was called after PSGD_GO, where psgd_gradient"},
                 {TRAINER_GO, false, stepped, "psgd_stepped was called after PSGD_GO"},
                 {TRAINER_GO, false, evaluated, "psgd_evaluated was called after PSGD_GO"},
                 {TRAINER_GO, true, stepped, "psgd_stepped was called where psgd_next comes next"},
                 {TRAINER_GO, true, shard, "psgd_shard was called where psgd_next comes next"},
                 {TRAINER_EVALUATE, false, gradient_first, "psgd_gradient was called after PSGD_EVALUATE"}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        begin(NULL);
        if (!cases[i].turn)
            open_accepted(0);
        else
            open_in_turn(cases[i].turn, 0);
        if (cases[i].is_answered) {
            assert_int_equal(psgd_stepped_by(p, 1, 8, 0.1), 0);
            take(TRAINER_UPDATED);
        }
        cases[i].call();
        assert_said(cases[i].words);
        take_failure(cases[i].words);
        assert_int_equal(psgd_next(p), -1); /* final, and sent once */
        assert_said(cases[i].words);
        take_none();
        assert_int_equal(end(NULL), 0);
    }
}

TEST(a_program_that_gives_up_says_why)
{
    char why[2 * TRAINER_TEXT] = "";
    struct trainer_record r;

    for (int i = 0; i < 70; i++)
        strcat(why, "\xc3\xa4"); /* 140 bytes */
    open_in_turn(TRAINER_GO, 0);
    psgd_fail(p, why);
    r = take(TRAINER_FAILED);
    assert_int_equal(r.flags, TRAINER_GOES_ON);
    assert_int_equal(strlen(r.u.of.text), TRAINER_TEXT - 2); /* whole characters */
    r = take(TRAINER_FAILED);
    assert_int_equal(r.flags, 0);
    assert_string_equal(r.u.of.text, why + TRAINER_TEXT - 2);
    assert_int_equal(psgd_stepped(p), -1);
    assert_said(why);
    psgd_close(p);
    p = NULL;
    assert_int_equal(recv(fake.socket, why, 1, MSG_DONTWAIT), 0);
}

TEST(a_program_that_closes_too_early_has_failed)
{
    open_in_turn(TRAINER_GO, 0);
    psgd_close(p);
    p = NULL;
    take_failure("the program called psgd_close before the job's end");
}

/* Runs `body` in a child, which has what this process has. Returns its exit status. */
static int in_child(int (*body)(void))
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0)
        _exit(body());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int use_in_child(void)
{
    bool is_refused = psgd_next(p) == -1 && strstr(psgd_error(), "forked after psgd_open") &&
                      !psgd_gradient(p, 1, 8, 0.1) && psgd_log(p, "f1", 1) == -1;

    psgd_fail(p, "a child's sentence");
    psgd_close(p);
    return is_refused ? 0 : 1;
}

TEST(a_forked_child_cannot_use_its_parents_session)
{
    open_in_turn(TRAINER_GO, 0);
    assert_int_equal(in_child(use_in_child), 0);
    take_none();
    assert_int_equal(psgd_stepped_by(p, 1, 8, 0.1), 0);
    take(TRAINER_UPDATED);
}

static int go_on_in_child(void)
{
    return psgd_next(p) == -1 && strstr(psgd_error(), "forked after psgd_open") ? 0 : 1;
}

TEST(a_forked_child_of_a_finished_program_cannot_use_its_session)
{
    open_in_turn(TRAINER_GO, TRAINER_TAKES_GRADIENTS);
    assert_int_equal(psgd_finish(p), 0);
    assert_int_equal(in_child(go_on_in_child), 0);
    put(TRAINER_UPDATE, 0, TRAINER_COMBINED);
    assert_non_null(psgd_gradient(p, 1, 8, 0.1));
    take(TRAINER_FINISHED);
    take(TRAINER_GRADIENT);
}

static int open_again(void)
{
    struct psgd *again = p;
    bool is_refused = psgd_open(&again, layout, N_OF(layout)) == -1 && !again;

    return is_refused && strstr(psgd_error(), "is not the socket of a job: psgd_open is called once") ? 0 : 1;
}

TEST(the_socket_is_taken_once_and_not_inherited_by_programs)
{
    int fd = atoi(getenv(TRAINER_ENV));

    open_accepted(0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(open_again(), 0);
    assert_int_equal(in_child(open_again), 0);
    take_none();
    psgd_close(p);
    p = NULL;
    assert_int_equal(open_again(), 0);
}

TEST(an_environment_that_names_no_socket_is_refused)
{
    static const char *const texts[] = {
        "-1", "x", "3x", " 0", "1000000", "4294967296", "99999999999999999999"};
    int pipes[2];
    char text[16];

    fake.n_fds++; /* the program's end, which it cannot find */
    for (size_t i = 0; i < N_OF(texts); i++) {
        setenv(TRAINER_ENV, texts[i], 1);
        assert_int_equal(open_again(), 0);
    }
    assert_int_equal(pipe(pipes), 0);
    snprintf(text, sizeof text, "%d", pipes[0]);
    setenv(TRAINER_ENV, text, 1);
    assert_int_equal(open_again(), 0);
    close(pipes[0]);
    close(pipes[1]);
}

/* A process of psgd's that ends at once. */
static void open_beside(const char *submit, const char *words)
{
    unsetenv(TRAINER_ENV);
    setenv("PSGD_OPTIONS", "--codec fedavg", 1);
    setenv("PSGD_JOB_SUBMIT", submit, 1);
    assert_int_equal(open_program(), -1);
    assert_said(words);
    unsetenv("PSGD_OPTIONS");
    unsetenv("PSGD_JOB_SUBMIT");
}

TEST(a_program_that_starts_psgd_says_why_it_has_not_started_or_has_ended)
{
    hang_up();
    fake.n_fds++; /* the program's end, which it does not look for */
    open_beside("/nowhere", "/nowhere, which runs this program's node, cannot be started (No such file or "
                            "directory): have job_submit in PATH, or name it by PSGD_JOB_SUBMIT");
    open_beside("false",
                "job_submit, which this program has started for its node, has ended with exit status "
                "1: it has said why");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* it was waited for */
}

/* A program of a launcher is asked for its tensors and values first. */
static void put_again(struct trainer_record second)
{
    put(TRAINER_AGAIN, 0, 0);
    fake.n_sent = 0;
    put_with(second, fake.memory);
}

static void take_layout(void)
{
    take(TRAINER_OPEN);
    for (size_t i = 0; i < N_OF(layout); i++)
        assert_string_equal(take(TRAINER_TENSOR).u.of.text, layout[i].name);
}

TEST(a_program_of_a_launcher_announces_itself_again_and_its_vectors_are_in_the_jobs_memory)
{
    float *w;

    open_accepted(TRAINER_DESCRIBES);
    w = psgd_params(p);
    assert_false(psgd_has_values(p));
    psgd_batches(p, 25);
    w[1] = 5;
    close(fake.memory);
    fake.memory = make_file(3 * TRAINER_PAGE, F_SEAL_SHRINK | F_SEAL_GROW);
    put_again(accepted(TRAINER_TAKES_GRADIENTS));
    put(TRAINER_GO, 0, TRAINER_TAKES_PART);
    assert_int_equal(psgd_next(p), PSGD_GO);
    take(TRAINER_VALUES);
    assert_int_equal(take(TRAINER_READY).n, 25);
    fake.n_taken = 0;
    take_layout();
    take(TRAINER_VALUES);
    assert_int_equal(take(TRAINER_READY).n, 25);
    assert_true(psgd_has_values(p) && psgd_plan(p)->node == 1 && psgd_plan(p)->takes_gradients);
    assert_ptr_equal(psgd_params(p), w);
    assert_true(w[1] == 0); /* of the job */
    w[0] = 3;
    assert_true(pread(fake.memory, fake.vectors, sizeof *w, 0) == sizeof *w && fake.vectors[0] == 3);
}

TEST(a_program_that_is_asked_again_checks_what_it_gets)
{
    struct trainer_record other = accepted(0);

    assert_int_equal(begin(NULL), 0);
    open_accepted(TRAINER_DESCRIBES);
    other.u.accepted.combined_at = 3 * TRAINER_PAGE;
    other.u.accepted.bytes = 4 * TRAINER_PAGE;
    close(fake.memory);
    fake.memory = make_file(4 * TRAINER_PAGE, F_SEAL_SHRINK | F_SEAL_GROW);
    put_again(other);
    assert_int_equal(psgd_next(p), -1);
    assert_said("psgd's memory for the job is laid out otherwise than before the job");
    assert_int_equal(end(NULL), 0);

    assert_int_equal(begin(NULL), 0);
    open_accepted(0);
    put(TRAINER_AGAIN, 0, 0);
    assert_int_equal(psgd_next(p), -1);
    assert_said("psgd has sent record 74, and not what comes next");
    assert_int_equal(end(NULL), 0);

    assert_int_equal(begin(NULL), 0);
    open_accepted(TRAINER_DESCRIBES);
    put(TRAINER_AGAIN, 0, 0);
    fake.n_sent = 0;
    put_text(TRAINER_STOP, "cancelled by the submitter", 0);
    assert_int_equal(psgd_next(p), PSGD_STOP);
    assert_string_equal(psgd_why(p), "cancelled by the submitter");
    assert_int_equal(end(NULL), 0);
}

TEST(invalid_tensors_are_refused_alone_and_in_a_job)
{
    static char long_name[PSGD_NAME + 1];
    static const struct {
        struct psgd_tensor first, second;
        const char *words;
    } cases[] = {{{"W", 1, {3}, false}, {"W", 1, {3}, true}, "two tensors have the name 'W'"},
                 {{"W", 1, {3}, false}, {"", 1, {3}, false}, "tensor 1 of psgd_open"},
                 {{"W", 1, {3}, false}, {NULL, 1, {3}, false}, "tensor 1 of psgd_open"},
                 {{"W", 1, {3}, false}, {long_name, 1, {3}, false}, "tensor 1 of psgd_open"},
                 {{"W", -1, {3}, false}, {"b", 1, {3}, false}, "tensor 'W' has -1 dimensions"},
                 {{"W", 9, {3}, false}, {"b", 1, {3}, false}, "tensor 'W' has 9 dimensions"},
                 {{"W", 2, {3, 0}, false}, {"b", 1, {3}, false}, "size 0 in dimension 1"},
                 {{"W", 2, {SIZE_MAX, 2}, false}, {"b", 1, {3}, false}, "size 2 in dimension 1"},
                 {{"W", 1, {SIZE_MAX / 32}, false}, {"b", 1, {SIZE_MAX / 32}, false}, "up to 'b' have more"},
                 {{"W", 1, {SIZE_MAX}, false}, {"b", 1, {3}, false}, "up to 'W' have more"},
                 {{"var", 1, {3}, true}, {"mean", 1, {3}, true}, "at least one has to be trained"}};

    memset(long_name, 'x', PSGD_NAME);
    for (int alone = 0; alone < 2; alone++)
        for (size_t i = 0; i < N_OF(cases); i++) {
            const struct psgd_tensor both[] = {cases[i].first, cases[i].second};

            begin(NULL);
            if (alone)
                unsetenv(TRAINER_ENV);
            assert_int_equal(psgd_open(&p, both, 2), -1);
            assert_null(p);
            assert_said(cases[i].words);
            if (!alone)
                take(TRAINER_FAILED);
            fake.n_fds += alone; /* the program's end, which it does not look for */
            assert_int_equal(end(NULL), 0);
        }
    assert_int_equal(psgd_open(&p, NULL, 0), -1);
    assert_int_equal(psgd_open(&p, layout, TRAINER_TENSORS_MAX + 1), -1);
}

TEST(a_tensor_without_dimensions_is_a_number)
{
    static const struct psgd_tensor number = {"scale", 0, {0}, false};

    unsetenv(TRAINER_ENV);
    fake.n_fds++;
    assert_int_equal(psgd_open(&p, &number, 1), 0);
    assert_int_equal(psgd_n_params(p), 1);
}

/* A program that job_submit starts to learn its tensors and values. */
static int be_described(void)
{
    if (open_program() < 0 || psgd_has_values(p) || psgd_is_alone(p))
        return 1;
    psgd_params(p)[N_PARAMS - 1] = 2.5f;
    psgd_batches(p, 12);
    psgd_next(p);
    return 2;
}

TEST(a_description_ends_the_process_at_the_first_psgd_next)
{
    put_with(accepted(TRAINER_DESCRIBES), fake.memory);
    put_text(TRAINER_STOP, "described", TRAINER_DESCRIBES);
    fflush(NULL); /* exit() of the child would write it, too */
    assert_int_equal(in_child(be_described), 0);
    take(TRAINER_OPEN);
    for (size_t i = 0; i < N_OF(layout); i++)
        take(TRAINER_TENSOR);
    take(TRAINER_VALUES);
    assert_int_equal(take(TRAINER_READY).n, 12);
    assert_true(fake.vectors[N_PARAMS - 1] == 2.5f);
    fake.n_fds++; /* the child's socket, which this process has, too */
}

TEST(a_reason_of_psgds_may_take_several_records)
{
    open_accepted(0);
    put_text(TRAINER_STOP, "node 1: ", TRAINER_HAS_FAILED | TRAINER_GOES_ON);
    put_text(TRAINER_STOP, "lost,\n", TRAINER_HAS_FAILED | TRAINER_GOES_ON);
    put_text(TRAINER_STOP, " by reset", TRAINER_HAS_FAILED);
    assert_int_equal(psgd_next(p), -1);
    assert_said("the job has failed: node 1: lost,? by reset");

    assert_int_equal(end(NULL), 0);
    begin(NULL);
    open_accepted(0);
    put_text(TRAINER_STOP, "node 1", TRAINER_GOES_ON);
    put(TRAINER_GO, 0, 0);
    assert_int_equal(psgd_next(p), -1);
    assert_said("psgd has sent a text without its end");
}

TEST(a_description_that_failed_is_an_error)
{
    open_accepted(TRAINER_DESCRIBES);
    put_text(TRAINER_STOP, "more values than a job may have", TRAINER_DESCRIBES | TRAINER_HAS_FAILED);
    assert_int_equal(psgd_next(p), -1);
    assert_said("the job has failed: more values than a job may have");
}

#define ON_A_SOCKET(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_SOCKET(a_program_without_a_job_is_alone),
        ON_A_SOCKET(a_program_that_starts_psgd_says_why_it_has_not_started_or_has_ended),
        ON_A_SOCKET(a_program_of_a_launcher_announces_itself_again_and_its_vectors_are_in_the_jobs_memory),
        cmocka_unit_test(a_program_that_is_asked_again_checks_what_it_gets),
        ON_A_SOCKET(the_tensors_are_announced_and_the_plan_is_the_jobs),
        ON_A_SOCKET(three_steps_update_by_the_gradient_that_psgd_gives),
        ON_A_SOCKET(a_rule_for_parameters_needs_no_answer_within_a_step),
        ON_A_SOCKET(the_rules_factor_on_the_learning_rate_is_that_of_the_last_record),
        ON_A_SOCKET(a_program_that_does_not_ask_for_a_factor_fails),
        ON_A_SOCKET(a_factor_that_is_no_number_is_refused),
        ON_A_SOCKET(params_are_where_psgd_reads_them),
        ON_A_SOCKET(a_rule_that_takes_gradients_needs_each_of_them),
        ON_A_SOCKET(an_evaluation_is_made_or_left_out),
        ON_A_SOCKET(the_programs_state_is_written_and_read_by_descriptors),
        ON_A_SOCKET(a_shard_is_a_copy_of_psgds_rows),
        ON_A_SOCKET(for_a_finished_program_each_later_step_is_answered_where_the_rule_takes_no_gradients),
        ON_A_SOCKET(a_finished_program_follows_the_others_where_the_rule_takes_gradients),
        ON_A_SOCKET(a_finish_after_the_gradient_leaves_the_step_complete),
        ON_A_SOCKET(metrics_have_their_step),
        cmocka_unit_test(the_jobs_end_ends_each_wait),
        cmocka_unit_test(the_end_of_psgds_process_is_an_error_of_each_wait),
        cmocka_unit_test(what_psgd_said_before_it_ended_is_the_error),
        ON_A_SOCKET(a_refusal_is_the_sentence_of_the_error),
        cmocka_unit_test(an_accepted_program_checks_every_number),
        cmocka_unit_test(memory_that_could_be_cut_off_is_refused),
        cmocka_unit_test(a_record_that_does_not_belong_to_a_wait_is_refused),
        cmocka_unit_test(a_malformed_record_is_refused_in_each_wait),
        ON_A_SOCKET(several_descriptors_in_a_record_are_closed),
        cmocka_unit_test(a_step_beyond_the_job_is_refused),
        cmocka_unit_test(a_shard_that_does_not_fit_is_refused),
        cmocka_unit_test(a_shard_or_state_that_is_no_file_is_refused),
        cmocka_unit_test(a_call_out_of_turn_ends_the_session_with_a_sentence),
        ON_A_SOCKET(a_program_that_gives_up_says_why),
        ON_A_SOCKET(a_program_that_closes_too_early_has_failed),
        ON_A_SOCKET(a_reason_of_psgds_may_take_several_records),
        ON_A_SOCKET(a_forked_child_cannot_use_its_parents_session),
        ON_A_SOCKET(a_forked_child_of_a_finished_program_cannot_use_its_session),
        ON_A_SOCKET(the_socket_is_taken_once_and_not_inherited_by_programs),
        ON_A_SOCKET(an_environment_that_names_no_socket_is_refused),
        cmocka_unit_test(invalid_tensors_are_refused_alone_and_in_a_job),
        ON_A_SOCKET(a_tensor_without_dimensions_is_a_number),
        ON_A_SOCKET(a_description_ends_the_process_at_the_first_psgd_next),
        ON_A_SOCKET(a_description_that_failed_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
