/* Any packets of a training program: each is refused, or taken as a record that psgd's end allows there. Of
 * the input, a byte says how the next packet is made: whether its version and sequence are right, its length,
 * and whether a descriptor comes with it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/fd_pass.h"
#include "shared/trainer/trainer_link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { IS_RIGHT = 1, IS_SHORT = 2, HAS_FD = 4, FD_BYTES = 64 };

static int take_metric(void *owner, const char *name, double value, struct err *e)
{
    (void)owner, (void)value, (void)e;
    if (strlen(name) == 0 || strpbrk(name, ",\n\" "))
        abort();
    return 0;
}

static int take_rows(void *owner, const struct shard_request *request, uint32_t **index, size_t *n,
                     struct err *e)
{
    const int32_t *labels = request->labels;
    size_t n_rows = request->n_rows;
    int32_t sum = 0;

    (void)owner;
    if (labels && n_rows * sizeof *labels > FD_BYTES)
        abort();
    for (size_t i = 0; labels && i < n_rows; i++)
        sum |= labels[i];
    *n = n_rows < 4 ? n_rows : 4;
    *index = calloc(*n + 1, sizeof **index);
    return sum < 0 ? err_set(e, ERR_TRAINER, "no classes") : 0;
}

static int make_file(void *owner, size_t bytes)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    (void)owner;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        abort();
    return fd;
}

static void send_packets(int fd, const uint8_t *data, size_t size)
{
    int labels = make_file(NULL, FD_BYTES);
    uint64_t sequence = 0;

    while (size > 0) {
        uint8_t how = *data++;
        struct trainer_record r = {0};
        size_t n = --size < sizeof r ? size : sizeof r;

        memcpy(&r, data, n);
        data += n;
        size -= n;
        if (how & IS_RIGHT) {
            r.kind %= TRAINER_STORE + 2;
            r.version = TRAINER_VERSION;
            r.sequence = sequence++;
        }
        if (fd_pass_send(fd, &r, how & IS_SHORT ? how : sizeof r, how & HAS_FD ? labels : -1, MSG_DONTWAIT) <
            0)
            break;
    }
    close(labels);
}

static void check_tensors(const struct trainer_tensors *t)
{
    uint64_t n_values = 0;

    for (size_t i = 0; i < t->n; i++) {
        uint64_t values = 1;

        for (int k = 0; k < t->all[i].n_dims; k++)
            values *= t->all[i].shape[k];
        n_values += values;
    }
    if (t->n == 0 || t->n + t->n_frozen > TRAINER_TENSORS_MAX || n_values == 0 || n_values > MODEL_PARAMS_MAX)
        abort();
}

static void take_turns(struct trainer_link *l, double deadline)
{
    static const enum trainer_kind turns[] = {TRAINER_RESTORE,  TRAINER_GO,    TRAINER_UPDATE,
                                              TRAINER_EVALUATE, TRAINER_STORE, TRAINER_SAVE};
    struct trainer_record answer;
    struct err e;
    int rc = 0;

    for (size_t i = 0; rc == 0; i = (i + 1) % (sizeof turns / sizeof *turns))
        rc = trainer_link_turn(l, &(struct trainer_record){.kind = turns[i]}, -1, &answer, deadline, &e);
    if (rc == ERR_TIMEOUT) /* all has been sent before */
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct trainer_accepted a = trainer_link_lay_out(3, 2);
    struct trainer_tensors t;
    struct model_spec spec;
    struct trainer_link l;
    double deadline = clock_now() + 60;
    uint64_t n_batches;
    struct err e = {0};
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) < 0)
        abort();
    trainer_link_open(&l, &(struct trainer_link_config){.fd = fds[1],
                                                        .program = "fuzz.py",
                                                        .metric = take_metric,
                                                        .shard = take_rows,
                                                        .memory = make_file});
    send_packets(fds[0], data, size);
    shutdown(fds[0], SHUT_WR);
    if (trainer_link_take_tensors(&l, &t, deadline, &e) == 0) {
        check_tensors(&t);
        spec = (struct model_spec){
            .tensors = t.all, .n_tensors = (int)t.n, .frozen = t.frozen, .n_frozen = (int)t.n_frozen};
        if (trainer_link_compare(&l, 0, &t, &spec, &e) < 0)
            abort();
        trainer_tensors_clear(&t);
        if (trainer_link_accept(&l, &a, 0, -1, deadline, &e) == 0 &&
            trainer_link_await_ready(&l, &n_batches, deadline, &e) == 0)
            take_turns(&l, deadline);
    }
    trainer_link_stop(&l, 0, "the end");
    trainer_link_close(&l);
    close(fds[0]);
    return 0;
}
