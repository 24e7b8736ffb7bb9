#include "shared/job/blocks.h"

#include <stdlib.h>
#include <string.h>

/* C(n, r), or BLOCKS_MAX + 1 when it is larger. Each product is a binomial, so the division is exact. */
static int binomial(int n, int r)
{
    long long c = 1;

    for (int i = 1; i <= r; i++) {
        c = c * (n - r + i) / i;
        if (c > BLOCKS_MAX)
            return BLOCKS_MAX + 1;
    }
    return (int)c;
}

static void fill_subsets(struct blocks *b)
{
    int n = b->n_nodes;
    int r = b->redundancy;
    int *row = b->holders;

    for (int i = 0; i < r; i++)
        row[i] = i;
    for (int k = 1; k < b->n_blocks; k++, row += r) {
        int i = r - 1;

        memcpy(row + r, row, (size_t)r * sizeof *row);
        while (row[i] == n - r + i)
            i--;
        row[r + i]++;
        for (int j = i + 1; j < r; j++)
            row[r + j] = row[r + j - 1] + 1;
    }
}

int blocks_init(struct blocks *b, enum block_assignment assignment, int n_nodes, int redundancy,
                struct err *e)
{
    bool dup = assignment == BLOCKS_DUP;
    int n = n_nodes;
    int r = redundancy;

    if (n < 1 || r < 1 || r > n)
        return err_set(e, ERR_CONFIG,
                       "redundancy %d does not fit %d worker%s: each block needs %d different holders", r, n,
                       n == 1 ? "" : "s", r);
    if (dup && n % r != 0)
        return err_set(e, ERR_CONFIG, "dup needs a number of workers that redundancy divides, not %d and %d",
                       n, r);
    *b = (struct blocks){
        .n_nodes = n, .n_blocks = dup ? n / r : binomial(n, r), .redundancy = r, .is_equal = true};
    if (b->n_blocks > BLOCKS_MAX)
        return err_set(e, ERR_CONFIG,
                       "iid with %d workers and redundancy %d makes more than %d blocks; use dup", n, r,
                       BLOCKS_MAX);
    b->holders = malloc((size_t)b->n_blocks * (size_t)r * sizeof *b->holders);
    if (!b->holders)
        return err_set(e, ERR_NOMEM, "no memory for %d blocks", b->n_blocks);
    if (dup)
        for (int i = 0; i < n; i++)
            b->holders[i] = i;
    else
        fill_subsets(b);
    return 0;
}

/* Reads the next number of "2,1,1", and the comma after it. Returns -1 if there is none. */
static int next_share(const char **at)
{
    size_t n = strspn(*at, "0123456789");
    long share = n > 0 && n < 6 ? strtol(*at, NULL, 10) : 0;

    *at += n;
    if (share < 1 || (**at && **at != ',') || (**at == ',' && !(*at)[1]))
        return -1;
    *at += **at == ',';
    return (int)share;
}

int blocks_init_ratio(struct blocks *b, const char *ratio, int n_nodes, struct err *e)
{
    int n = 0, first = 0, sum = 0;

    *b = (struct blocks){.n_nodes = n_nodes, .redundancy = 1, .is_equal = true};
    for (const char *at = ratio; *at; n++) {
        int share = next_share(&at);

        if (share < 0)
            return err_set(e, ERR_CONFIG, "\"%s\" is not a list of whole numbers from 1 to 99999, as 2,1,1",
                           ratio);
        first = n == 0 ? share : first;
        b->is_equal &= share == first;
        sum += share;
        if (sum > BLOCKS_MAX)
            return err_set(e, ERR_CONFIG, "\"%s\" makes more than %d blocks", ratio, BLOCKS_MAX);
    }
    if (b->is_equal && first > 1)
        return err_set(
            e, ERR_CONFIG,
            "\"%s\" gives all workers as many blocks; make the batch size %d times as large instead", ratio,
            first);
    if (n != n_nodes)
        return err_set(e, ERR_CONFIG, "\"%s\" has %d number%s, the job %d worker%s", ratio, n,
                       n == 1 ? "" : "s", n_nodes, n_nodes == 1 ? "" : "s");
    b->holders = malloc((size_t)sum * sizeof *b->holders);
    if (!b->holders)
        return err_set(e, ERR_NOMEM, "no memory for %d blocks", sum);
    n = 0;
    for (const char *at = ratio; *at; n++)
        for (int share = next_share(&at); share > 0; share--)
            b->holders[b->n_blocks++] = n;
    return 0;
}

int blocks_in_ratio(const char *ratio, int node)
{
    int share = 1;

    for (const char *at = ratio; *at && node >= 0; node--)
        share = next_share(&at);
    return share;
}

int blocks_init_shared(struct blocks *b, int n_nodes, struct err *e)
{
    if (blocks_init(b, BLOCKS_IID, n_nodes, 1, e) < 0)
        return e->code;
    b->is_shared = true;
    return 0;
}

int blocks_in_row(const struct blocks *b)
{
    return b->is_shared ? 1 : b->n_blocks;
}

void blocks_clear(struct blocks *b)
{
    free(b->holders);
    *b = (struct blocks){0};
}

bool blocks_holds(const struct blocks *b, int block, int node)
{
    const int *row = b->holders + (size_t)block * (size_t)b->redundancy;

    for (int i = 0; i < b->redundancy; i++)
        if (row[i] == node)
            return true;
    return false;
}

int blocks_of(const struct blocks *b, int node, int *out)
{
    int n = 0;

    for (int k = 0; k < blocks_in_row(b); k++)
        if (b->is_shared || blocks_holds(b, k, node))
            out[n++] = k;
    return n;
}

uint64_t blocks_stream(const struct blocks *b, uint64_t step, int block)
{
    return step * (uint64_t)b->n_blocks + (uint64_t)block;
}
