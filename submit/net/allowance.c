#include "submit/net/allowance.h"

#include <math.h>

bool allowance_take(struct allowance *a, size_t len, double now, uint64_t *n_hidden)
{
    if (a->at == 0)
        a->bytes = ALLOWANCE_BYTES;
    else
        a->bytes = fmin(ALLOWANCE_BYTES, a->bytes + fmax(now - a->at, 0) * ALLOWANCE_BYTES_PER_S);
    a->at = now;
    /* After the first line that does not fit, some room is waited for: else each second had its half line. */
    if (a->bytes < (double)len || (a->n_hidden > 0 && a->bytes < 0.25 * ALLOWANCE_BYTES)) {
        a->n_hidden++;
        return false;
    }
    a->bytes -= (double)len;
    *n_hidden = a->n_hidden;
    a->n_hidden = 0;
    return true;
}
