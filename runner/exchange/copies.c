#include "runner/exchange/copies.h"

#include <stdlib.h>
#include <string.h>

/* (n) vectors of zeros. NULL: no memory. */
static float **vectors(int n, size_t n_params)
{
    float **v = calloc((size_t)n, sizeof *v);

    for (int k = 0; v && k < n; k++)
        if (!(v[k] = calloc(n_params + 1, sizeof **v))) {
            while (k > 0)
                free(v[--k]);
            free(v);
            return NULL;
        }
    return v;
}

static void free_vectors(float **v, int n)
{
    for (int k = 0; v && k < n; k++)
        free(v[k]);
    free(v);
}

int copies_open(struct copies *c, enum copies_kind kind, int n, const float *params, size_t n_params,
                struct err *e)
{
    *c = (struct copies){.n = n, .n_params = n_params};
    c->of = vectors(n, n_params);
    c->left = kind == COPIES_WITH_LEFT ? vectors(n, n_params) : NULL;
    c->work = calloc(n_params + 1, sizeof *c->work);
    if (!c->of || !c->work || (kind == COPIES_WITH_LEFT && !c->left)) {
        copies_clear(c);
        return err_set(e, ERR_NOMEM, "no memory for %d copies of %zu parameters", n, n_params);
    }
    for (int k = 0; n_params > 0 && k < n; k++)
        memcpy(c->of[k], params, n_params * sizeof *params);
    return 0;
}

void copies_clear(struct copies *c)
{
    free_vectors(c->of, c->n);
    free_vectors(c->left, c->n);
    free(c->work);
    *c = (struct copies){0};
}

size_t copies_bytes(const struct copies *c)
{
    return (size_t)c->n * c->n_params * sizeof(float) * (c->left ? 2 : 1);
}

int copies_index(const struct copies *c, int worker)
{
    return c->n == 1 ? 0 : worker;
}

void copies_forget(struct copies *c, int worker)
{
    if (c->n <= 1)
        return;
    free(c->of[worker]);
    c->of[worker] = NULL;
    if (!c->left)
        return;
    free(c->left[worker]);
    c->left[worker] = NULL;
}

void copies_swap(struct copies *c)
{
    float *y = c->work;

    c->work = c->of[0];
    c->of[0] = y;
    c->is_read = false;
}
