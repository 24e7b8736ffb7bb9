#include "shared/memory.h"

#include <math.h>
#include <stdio.h>

double memory_available(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    double kib = HUGE_VAL;
    char line[128];

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lf kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}
