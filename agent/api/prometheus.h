/* prometheus -- the text format of Prometheus, version 0.0.4:
 * https://prometheus.io/docs/instrumenting/exposition_formats/. Call prometheus_family, then its samples. */
#ifndef PSGD_PROMETHEUS_H
#define PSGD_PROMETHEUS_H

#include <stdio.h>

#include "agent/jobs/counts.h"

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* The value may be any UTF-8 text; it is escaped. */
struct label {
    const char *name, *value;
};

/* `labels` ends with {0}; NULL: none. A label without a value is left out. */
void prometheus_family(FILE *f, const char *name, const char *type, const char *help);
void prometheus_sample(FILE *f, const char *name, const struct label *labels, double value);
void prometheus_histogram(FILE *f, const char *name, const struct label *labels, const struct histogram *h,
                          const double bounds[COUNTS_BOUNDS]);

#endif
