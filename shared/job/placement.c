#include "shared/job/placement.h"

#include <stdlib.h>

static int n_trained_tensors(const struct model_spec *m)
{
    int n = 0;

    for (int i = 0; i < m->n_tensors; i++)
        n += !m->tensors[i].is_statistic;
    return n;
}

int placement_check(enum placement p, const struct model_spec *m, int n_servers, struct err *e)
{
    int n = n_trained_tensors(m);

    if (p == PLACEMENT_RANGE || (n_servers > 0 && n_servers <= n))
        return 0;
    if (n_servers == 0) {
        err_set(e, ERR_CONFIG, "--placement round_robin: the job has no parameter servers");
        return err_hint(e,
                        "The list of workers names them under \"PS\"; without them leave --placement out.");
    }
    err_set(e, ERR_CONFIG,
            "--placement round_robin gives each server whole tensors, and model \"%s\" has %d for %d servers",
            m->name, n, n_servers);
    return err_hint(e, "Take fewer parameter servers, or --placement range.");
}

/* Sets the offsets of one server's tensors, from `at` on. Returns their end. */
static size_t lay_out_server(struct model_spec *m, int server, int n_servers, size_t at)
{
    int turn = 0;

    for (int i = 0; i < m->n_tensors; i++) {
        struct model_tensor *t = &m->tensors[i];

        if (t->is_statistic || turn++ % n_servers != server)
            continue;
        t->offset = at;
        at += t->n;
    }
    return at;
}

int placement_lay_out(size_t **ranges, enum placement p, struct model_spec *m, int n_servers, struct err *e)
{
    *ranges = NULL;
    if (placement_check(p, m, n_servers, e) < 0)
        return e->code;
    if (p == PLACEMENT_RANGE)
        return 0;
    *ranges = calloc((size_t)n_servers + 1, sizeof **ranges);
    if (!*ranges)
        return err_set(e, ERR_NOMEM, "no memory for the ranges of %d servers", n_servers);
    for (int s = 0; s < n_servers; s++)
        (*ranges)[s + 1] = lay_out_server(m, s, n_servers, (*ranges)[s]);
    (*ranges)[n_servers] = m->n_params;
    m->is_reordered = true;
    return 0;
}
