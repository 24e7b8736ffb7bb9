#include "shared/clock.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static double seconds(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_now(void)
{
    return seconds(CLOCK_MONOTONIC);
}

double clock_wall(void)
{
    return seconds(CLOCK_REALTIME);
}

const char *clock_text(char out[CLOCK_TEXT], double t)
{
    long long ms = llround(t * 1e3);
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    size_t n;

    gmtime_r(&s, &tm);
    n = strftime(out, CLOCK_TEXT, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, CLOCK_TEXT - n, ".%03dZ", (int)(ms % 1000));
    return out;
}
