/* After the first steps a job allocates no memory and copies no parameter vector: two workers train as
 * their runners do, in a process each, and every allocation and every memcpy of the process is counted, in
 * any library, by step. Copies by a loop are not counted: in shared memory they are how a result is
 * received. Products are OpenBLAS's: oneDNN allocates some memory for each and frees it. */
#undef _FORTIFY_SOURCE /* this file defines functions that it would make inline */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/executor/node_execute.h"
#include "runner/node.h"
#include "runner/trainer/node_trainer.h"
#include "shared/base/json.h"
#include "shared/records/tensor_file.h"
#include "tests/lib/cluster.h"
#include "tests/lib/mesh_nodes.h"
#include "tests/lib/sealed_memory.h"

enum { WORKERS = 2, STEPS = 100, WARM = 10, BATCH = 8, WIDTH = 64 };

static const char arch[] =
    "{\"version\":1,\"name\":\"wide\",\"input\":[64],\"layers\":[{\"kind\":\"dense\",\"units\":512},{"
    "\"kind\":\"relu\"},"
    "{\"kind\":\"dense\",\"units\":512},{\"kind\":\"relu\"},{\"kind\":\"dense\",\"units\":10}],"
    "\"loss\":\"softmax_cross_entropy\"}";

static struct err e;
static struct node node; /* of this process */
static bool is_counting;
static struct {
    unsigned long n_allocations;
    size_t copied; /* bytes */
} steps[STEPS + 1];

/* The C library's own functions have these names. A sanitizer brings its own, and its own memcpy. */
#if !IS_SANITIZED
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static void count_allocation(void)
{
    if (is_counting)
        steps[node.step.n_done].n_allocations++;
}

void *malloc(size_t n)
{
    count_allocation();
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    count_allocation();
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    count_allocation();
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    count_allocation();
    return __libc_memalign(alignment, n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
    count_allocation();
    *p = __libc_memalign(alignment, n);
    return *p ? 0 : ENOMEM;
}

/* Through a pointer: of a direct call of memmove a compiler may make memcpy. */
static void *(*volatile move)(void *, const void *, size_t) = memmove;

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    if (is_counting)
        steps[node.step.n_done].copied += n;
    return move(to, from, n);
}

/* What a copy into an array of known size is compiled to. */
void *__memcpy_chk(void *to, const void *from, size_t n, size_t room);
void *__memcpy_chk(void *to, const void *from, size_t n, size_t room)
{
    assert_true(n <= room);
    return memcpy(to, from, n);
}
#endif

struct job {
    const char *codec;
    enum combine_path_kind path;
    const char *compress; /* NULL: not */
    enum use_local_path local_path;
    unsigned long n_allocations; /* allowed in all steps together, after the first ones */
    double n_vectors;            /* copied in a step, give or take headers and similar */
};

/* The folders that an agent makes for its runners; they work in run0 and run1 beside it. */
static void make_packages(const struct job *j)
{
    static uint8_t x[STEPS * BATCH * WIDTH];
    static int32_t y[STEPS * BATCH], lengths[BATCH];
    const struct tensor_view train[] = {
        {.name = "x", .type = TENSOR_U8, .n_dims = 2, .shape = {STEPS * BATCH, WIDTH}, .data = x},
        {.name = "y", .type = TENSOR_I32, .n_dims = 1, .shape = {STEPS * BATCH}, .data = y},
        {.name = "lengths", .type = TENSOR_I32, .n_dims = 1, .shape = {BATCH}, .data = lengths}};
    const struct tensor_view test[] = {
        {.name = "x", .type = TENSOR_U8, .n_dims = 2, .shape = {BATCH, WIDTH}, .data = x},
        {.name = "y", .type = TENSOR_I32, .n_dims = 1, .shape = {BATCH}, .data = y}};
    struct settings s;
    json_t *doc;
    char *text;

    for (size_t i = 0; i < sizeof x; i++)
        x[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t i = 0; i < N_OF(y); i++)
        y[i] = (int32_t)(i % 10);
    for (size_t i = 0; i < BATCH; i++)
        lengths[i] = STEPS;
    settings_default(&s);
    snprintf(s.codec, sizeof s.codec, "%s", j->codec);
    snprintf(s.server_codec, sizeof s.server_codec, "%s", j->codec);
    snprintf(s.compress, sizeof s.compress, "%s", j->compress ? j->compress : "");
    s.local_path = j->local_path;
    s.path = j->path;
    s.local_steps = 1;
    s.math = MATH_OPENBLAS;
    s.node_count = WORKERS;
    s.epochs = 1;
    s.steps_per_epoch = STEPS;
    s.batch_size = BATCH;
    doc = settings_json(&s);
    text = json_line(doc);
    assert_ok(file_mkdirs("packages", 0755, &e));
    assert_ok(file_write("packages/settings.json", text, strlen(text), 0644, &e));
    assert_ok(file_write("packages/model.json", arch, strlen(arch), 0644, &e));
    assert_ok(tensor_file_write("packages/train.safetensors", train, N_OF(train), NULL, &e));
    assert_ok(tensor_file_write("packages/test.safetensors", test, N_OF(test), NULL, &e));
    free(text);
    json_decref(doc);
}

static void must(int rc)
{
    if (rc < 0) {
        fprintf(stderr, "node %d: %s\n", node.job.node, e.text);
        _exit(1);
    }
}

static int check_steps(const struct job *j)
{
    double vector = (double)net_n_params(node.net) * sizeof(float);
    unsigned long n_allocations = 0, n_at_first = 0;
    int n_bad = 0;

    for (int k = 0; k < WARM; k++)
        n_at_first += steps[k].n_allocations;
    if (n_at_first == 0) {
        fprintf(stderr, "node %d: nothing is counted, for records do allocate at first\n", node.job.node);
        n_bad++;
    }
    for (int k = WARM; k < STEPS && n_bad == 0; k++) { /* the rest is the test set's */
        n_allocations += steps[k].n_allocations;
        if (fabs((double)steps[k].copied / vector - j->n_vectors) > 0.1) {
            fprintf(stderr, "node %d copies %zu bytes in step %d, the vector has %g\n", node.job.node,
                    steps[k].copied, k, vector);
            n_bad++;
        }
    }
    if (n_allocations > j->n_allocations) {
        fprintf(stderr, "node %d allocates %lu times in %d steps\n", node.job.node, n_allocations,
                STEPS - WARM);
        n_bad++;
    }
    return n_bad;
}

static struct data_key keys[WORKERS];

/* What an agent writes: the job, and its start. */
static void give_orders(int fd, int me, const int ports[WORKERS])
{
    char key[SHA256_HEX];

    must(dprintf(
        fd,
        "{\"job\":\"j-steady1\",\"attempt\":1,\"node\":%d,\"role\":\"worker\",\"workers_on_host\":0}\n"
        "{\"attempt\":1,\"secret\":\"%064d\",\"peers\":\"",
        me, 0));
    for (int i = 0; i < WORKERS; i++) {
        hex_encode(key, keys[i].published, sizeof keys[i].published);
        must(dprintf(fd, "%s%d 127.0.0.1:1 127.0.0.1 %d %s", i ? ";" : "", i, ports[i], key));
    }
    must(dprintf(fd, "\"}\n"));
}

/* A runner's work. Progress lines, five a second, allocate: they are disabled. */
static int live(const struct job *j, int me, int listen_fd, const int ports[WORKERS])
{
    struct orders_start start;
    struct monitor monitor;
    struct orders orders;
    struct report report;
    int control[2];
    const char *reason;
    char run[16];

    snprintf(run, sizeof run, "run%d", me);
    must(file_mkdirs(run, 0755, &e));
    if (chdir(run) < 0)
        _exit(1);
    node.execution = &node_execute;
    node.training = &node_trainer;
    node.report = &report;
    node.monitor = &monitor;
    must(report_open(&report, &e));
    report.last_progress = INFINITY;
    must(pipe2(control, O_CLOEXEC));
    give_orders(control[1], me, ports);
    must(monitor_start(&monitor, control[0], listen_fd, &report, &e));
    orders_open(&orders, monitor.orders_fd);
    must(orders_read_job(&orders, &node.job, &e));
    must(node_prepare(&node, &reason, &e));
    must(orders_read_start(&orders, &start, &node_interrupted, &e));
    node.data_key = keys[me];
    must(node_connect(&node, &start, listen_fd, &e));
    if (j->local_path == LOCAL_PATH_AUTO && !node.shm_group && !node.send_pool)
        _exit(1);
    is_counting = true;
    must(node_train(&node, &e));
    is_counting = false;
    return check_steps(j) > 0 || node_finish(&node, &e) < 0;
}

static void train(const struct job *j)
{
    const char *folder = unit_folder();
    char codec[PATH_MAX], path[PATH_MAX], here[PATH_MAX];
    int fds[WORKERS], ports[WORKERS], n_bad = 0;
    pid_t pids[WORKERS];

    snprintf(path, sizeof path, "%s/codecs/%s.so", test_build_dir(), j->codec);
    assert_non_null(realpath(path, codec));
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    make_packages(j);
    assert_int_equal(symlink(codec, "packages/codec.so"), 0);
    for (int i = 0; i < WORKERS; i++) {
        fds[i] = listen_anywhere(&ports[i]);
        data_key_make(&keys[i]);
    }
    fflush(NULL);
    for (int i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            close(fds[!i]);
            alarm(300);
            _exit(live(j, i, fds[i], ports));
        }
        close(fds[i]);
    }
    for (int i = 0; i < WORKERS; i++) {
        int status = 1;

        waitpid(pids[i], &status, 0);
        n_bad += status != 0;
    }
    assert_int_equal(chdir(here), 0);
    unit_remove(folder);
    assert_int_equal(n_bad, 0);
}

TEST(reducing_over_connections_allocates_nothing_and_copies_no_vector)
{
    if (IS_SANITIZED)
        skip();
    train(&(struct job){.codec = "allreduce", .local_path = LOCAL_PATH_OFF});
}

TEST(reducing_items_of_a_common_scale_allocates_nothing_and_copies_no_vector)
{
    if (IS_SANITIZED)
        skip();
    train(&(struct job){.codec = "allreduce", .compress = "fixed8", .local_path = LOCAL_PATH_OFF});
}

/* The update reads the sums of all slices where they were summed. */
TEST(reducing_in_shared_memory_allocates_nothing_and_copies_no_vector)
{
    if (IS_SANITIZED)
        skip();
    needs_sealed_memory();
    train(&(struct job){.codec = "allreduce", .local_path = LOCAL_PATH_AUTO});
}

/* The parameters are in that memory. */
TEST(averaging_parameters_in_shared_memory_allocates_nothing_and_copies_one_vector)
{
    if (IS_SANITIZED)
        skip();
    needs_sealed_memory();
    train(&(struct job){.codec = "fedavg", .local_path = LOCAL_PATH_AUTO, .n_vectors = 1});
}

/* Its contribution is a copy of the gradient, which changes while the contribution is in flight. The pool
 * of messages grows when nodes drift apart by more steps than before, which is limited to a few. */
TEST(a_message_rule_copies_the_vector_once_and_allocates_a_few_messages)
{
    if (IS_SANITIZED)
        skip();
    train(&(struct job){.codec = "plain",
                        .path = COMBINE_PATH_GATHER,
                        .local_path = LOCAL_PATH_OFF,
                        .n_allocations = 20,
                        .n_vectors = 1});
}

/* A contribution is written into a buffer, copied into the sender's shared memory, and from there by the
 * receiver. Streaming stores (mesh.c) are no memcpy, and so not counted. */
#ifdef __SSE2__
enum { N_STREAMED = 1 };
#else
enum { N_STREAMED = 0 };
#endif
TEST(a_message_rule_on_one_machine_copies_the_vector_twice_and_allocates_a_few_messages)
{
    if (IS_SANITIZED)
        skip();
    needs_sealed_memory();
    train(&(struct job){.codec = "plain",
                        .path = COMBINE_PATH_GATHER,
                        .local_path = LOCAL_PATH_AUTO,
                        .n_allocations = 20,
                        .n_vectors = 3 - N_STREAMED});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reducing_over_connections_allocates_nothing_and_copies_no_vector),
        cmocka_unit_test(reducing_items_of_a_common_scale_allocates_nothing_and_copies_no_vector),
        cmocka_unit_test(reducing_in_shared_memory_allocates_nothing_and_copies_no_vector),
        cmocka_unit_test(averaging_parameters_in_shared_memory_allocates_nothing_and_copies_one_vector),
        cmocka_unit_test(a_message_rule_copies_the_vector_once_and_allocates_a_few_messages),
        cmocka_unit_test(a_message_rule_on_one_machine_copies_the_vector_twice_and_allocates_a_few_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
