#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "submit/plot/plot.h"

/* The step of about `n` ticks: 1, 2 or 5 of a power of ten. */
static double step_of(double span, int n)
{
    static const double nice[] = {1, 2, 5};
    double rough = span / n, power = pow(10, floor(log10(rough)));

    for (size_t i = 0; i < sizeof nice / sizeof *nice; i++)
        if (nice[i] * power >= rough * 0.999)
            return nice[i] * power;
    return 10 * power;
}

static int linear(double *out, int most, double low, double high)
{
    double step = step_of(high - low, most > 1 ? most - 1 : 1);
    double last = fmin(high + step * 1e-9, DBL_MAX); /* which may be the largest number */
    int n = 0;

    for (double k = ceil(low / step - 1e-9); k * step <= last && n < most; k++)
        out[n++] = k * step + 0.0; /* no -0 */
    return n;
}

/* Powers of ten, with their 2nd and 5th multiples where there is room for these. */
static int logarithmic(double *out, int most, double low, double high)
{
    double decades = log10(high / low);
    bool has_room = 3 * decades + 1 <= most;
    double every = ceil((decades + 1) / most);
    int n = 0;

    for (double e = floor(log10(low)); e <= log10(high) + 1e-9; e += has_room ? 1 : every)
        for (int m = 1; m <= 5; m += m == 1 ? 1 : 3) {
            double v = m * pow(10, e);

            if ((m == 1 || has_room) && v >= low * 0.9999 && v <= high * 1.0001 && n < most)
                out[n++] = v;
        }
    return n;
}

int plot_ticks(double out[PLOT_TICKS], int most, double low, double high, bool is_log)
{
    int n;

    most = most > PLOT_TICKS ? PLOT_TICKS : most < 2 ? 2 : most;
    if (!isfinite(high - low) || !(high > low)) {
        out[0] = low;
        return 1;
    }
    n = is_log ? logarithmic(out, most, low, high) : 0;
    return n >= 2 ? n : linear(out, most, low, high); /* a range within a power of ten */
}

const char *plot_number(char out[PLOT_NUMBER], double v, const char *unit)
{
    static const char *const small[] = {"", "k", "M", "G", "T", "P", "E"};
    bool is_scaled = unit[0] ? fabs(v) >= 999.5 : fabs(v) >= 9999.5;
    int u = 0;

    if (fabs(v) >= 1e21) {
        snprintf(out, PLOT_NUMBER, "%.4g%s%s", v, unit[0] ? " " : "", unit);
        return out;
    }
    for (; is_scaled && (u == 0 || fabs(v) >= 999.5) && small[u + 1]; u++)
        v /= 1000;
    snprintf(out, PLOT_NUMBER, "%.4g%s%s%s", v, u > 0 || unit[0] ? " " : "", small[u], unit);
    return out;
}

/* More than this between the ends of the curves and a linear axis has all but one at its edge. */
static const double apart = 10;

bool plot_is_wide(const struct plot *p)
{
    double least = INFINITY, most = 0;

    for (size_t i = 0; i < p->n; i++) {
        double end = p->curves[i].n > 0 ? p->curves[i].x[p->curves[i].n - 1] : 0;

        if (end > 0) {
            least = fmin(least, end);
            most = fmax(most, end);
        }
    }
    return most > apart * least;
}

void plot_drop_without_log(struct plot *p)
{
    for (size_t i = 0; i < p->n; i++) {
        struct plot_curve *c = &p->curves[i];
        size_t n = 0;

        for (size_t k = 0; k < c->n; k++)
            if (c->x[k] > 0) {
                c->x[n] = c->x[k];
                c->y[n++] = c->y[k];
            }
        c->n = n;
    }
}
