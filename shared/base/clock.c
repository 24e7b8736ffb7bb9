#include "shared/base/clock.h"

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

/* Not gmtime_r(), which reads the time zone first, and fails if there is no memory for that. The calendar
 * counts from March, so that leap days end a year: E. G. Richards, Mapping Time, 1998. */
const char *clock_text(char out[CLOCK_TEXT], double t)
{
    enum { DAY_S = 86400, DAYS_TO_1970 = 719468, CYCLE_DAYS = 146097 };
    long long ms = llround(t * 1e3), s = ms / 1000, days = s / DAY_S + DAYS_TO_1970;
    long long cycle = days / CYCLE_DAYS, of_cycle = days % CYCLE_DAYS;
    long long year = (of_cycle - of_cycle / 1460 + of_cycle / 36524 - of_cycle / 146096) / 365;
    long long of_year = of_cycle - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
    int second = (int)(s % DAY_S);

    snprintf(out, CLOCK_TEXT, "%04lld-%02lld-%02lldT%02d:%02d:%02d.%03dZ", 400 * cycle + year + (month >= 10),
             month < 10 ? month + 3 : month - 9, of_year - (153 * month + 2) / 5 + 1, second / 3600,
             second / 60 % 60, second % 60, (int)(ms % 1000));
    return out;
}

bool clock_parse(double *out, const char *text)
{
    struct tm tm = {0};
    int ms, used = 0;

    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &ms, &used) != 7 ||
        used != 24 || text[used] != '\0')
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *out = (double)timegm(&tm) + 1e-3 * ms;
    return true;
}
