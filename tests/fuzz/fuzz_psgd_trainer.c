/* Any records of psgd's, to a training program that answers each turn: it ends, with rows and steps within
 * the promised limits, and uses no memory beyond its vectors. The first byte: does it ask for a shard? Then
 * come records: a byte of the kind, a byte of a descriptor and of the number of changed words, and for each
 * of these its place and value. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/fd_pass.h"
#include "shared/trainer/psgd_trainer.h"
#include "shared/trainer/trainer_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    N_PARAMS = 7,
    N_ROWS = 4,
    N_STEPS = 10,
    RECORDS_MAX = 40,
    N_WORDS = sizeof(struct trainer_record) / 8
};
enum { IS_WRONG = 128 }; /* in the byte of the kind: version and sequence are left as the input has them */

static const uint8_t kinds[] = {TRAINER_ACCEPTED, TRAINER_REFUSED,  TRAINER_SHARDED, TRAINER_GO,
                                TRAINER_UPDATE,   TRAINER_EVALUATE, TRAINER_SAVE,    TRAINER_RESTORE,
                                TRAINER_STOP,     TRAINER_OPEN,     TRAINER_STORE,   TRAINER_STORE + 1};

static int make_file(const void *bytes, size_t n, int seals)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || pwrite(fd, bytes, n, 0) != (ssize_t)n || fcntl(fd, F_ADD_SEALS, seals) < 0)
        abort();
    return fd;
}

/* One of those that psgd may send, or should not; it stays open. -1: none. */
static int choose_fd(uint8_t choice, int socket)
{
    static const uint32_t rows[] = {3, 0, N_ROWS};
    static const char zeros[3 * TRAINER_PAGE];
    static int files[3];

    if (!files[0]) {
        files[0] = make_file(zeros, sizeof zeros, F_SEAL_SHRINK | F_SEAL_GROW);
        files[1] = make_file(rows, sizeof rows, F_SEAL_SHRINK | F_SEAL_WRITE);
        files[2] = make_file(zeros, 8, F_SEAL_GROW);
    }
    return choice % 5 < 3 ? files[choice % 5] : choice % 5 == 3 ? socket : -1;
}

static void send_records(int socket, const uint8_t *data, size_t size)
{
    for (uint64_t k = 0; size >= 2 && k < RECORDS_MAX; k++) {
        struct trainer_record r = {.version = TRAINER_VERSION, .sequence = k, .n = 2, .lr = 1};
        int fd = choose_fd(data[1] % 16, socket);

        r.kind = kinds[data[0] % IS_WRONG % sizeof kinds];
        if (r.kind == TRAINER_ACCEPTED)
            r.u.accepted = (struct trainer_accepted){.n_nodes = 1,
                                                     .n_params = N_PARAMS,
                                                     .n_trained = N_PARAMS - 1,
                                                     .grads_at = TRAINER_PAGE,
                                                     .combined_at = 2 * TRAINER_PAGE,
                                                     .bytes = 3 * TRAINER_PAGE,
                                                     .n_steps = N_STEPS,
                                                     .every = 1};
        for (int n = data[1] / 16 % 4; n > 0 && size >= 2 + 9; n--, data += 9, size -= 9)
            memcpy((char *)&r + data[2] % N_WORDS * 8, data + 3, 8);
        if (!(data[0] & IS_WRONG)) {
            r.version = TRAINER_VERSION;
            r.sequence = k;
        }
        r.flags &= ~(uint32_t)TRAINER_DESCRIBES; /* it would end this process */
        if (fd_pass_send(socket, &r, sizeof r, fd, MSG_DONTWAIT) < 0)
            abort();
        data += 2;
        size -= 2;
    }
}

static void check_rows(struct psgd *p)
{
    static const int32_t labels[N_ROWS] = {1, 0, 2, 1};
    const struct psgd_data data = {.n_rows = N_ROWS, .labels = labels};
    uint32_t *index;
    size_t n;

    if (psgd_shard(p, &data, &index, &n) < 0)
        return;
    if (n > N_ROWS)
        abort();
    for (size_t i = 0; i < n; i++)
        if (index[i] >= N_ROWS)
            abort();
    free(index);
}

static void take_step(struct psgd *p)
{
    const float *by;
    float *w = psgd_params(p), *g = psgd_grads(p);

    for (size_t i = 0; i < N_PARAMS; i++)
        g[i] = w[i] + 1;
    by = psgd_gradient(p, 1, 8, 0.1);
    if (!isfinite(psgd_lr_factor(p)))
        abort();
    for (size_t i = 0; by && i < N_PARAMS; i++)
        w[i] -= by[i];
    psgd_stepped(p);
}

static void train(struct psgd *p)
{
    const struct psgd_plan *plan = psgd_plan(p);
    char state[8] = "adam";
    int what;

    while ((what = psgd_next(p)) > PSGD_STOP) {
        if (plan->node < 0 || plan->node >= plan->n_nodes || plan->every < 1 ||
            (plan->n_steps > 0 && plan->step > plan->n_steps - (what == PSGD_GO)))
            abort();
        if (what == PSGD_GO)
            take_step(p);
        else if (what == PSGD_EVALUATE && plan->has_changed)
            psgd_evaluated(p, 1, NAN, 8);
        else if (what == PSGD_SAVE && write(psgd_state_fd(p), state, sizeof state) == 0)
            abort();
        else if (what == PSGD_RESTORE && read(psgd_state_fd(p), state, sizeof state) > (ssize_t)sizeof state)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct psgd_tensor layout[] = {{"W", 2, {2, 3}, false}, {"mean", 1, {1}, true}};
    struct psgd *p;
    char text[16];
    int fds[2];

    if (size < 1 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) < 0)
        return 0;
    send_records(fds[0], data + 1, size - 1);
    if (shutdown(fds[0], SHUT_WR) < 0)
        abort();
    snprintf(text, sizeof text, "%d", fds[1]);
    setenv(TRAINER_ENV, text, 1);
    if (psgd_open(&p, layout, 2) == 0) {
        if (data[0] & 1)
            check_rows(p);
        train(p);
        psgd_close(p);
    }
    close(fds[0]);
    return 0;
}
