/* prometheus_check -- a parser of Prometheus' text format, with which tests check the writer. */
#ifndef PSGD_TEST_PROMETHEUS_CHECK_H
#define PSGD_TEST_PROMETHEUS_CHECK_H

#include <stdbool.h>
#include <stddef.h>

enum { SERIES_MAX = 4096 };

struct prometheus_text {
    struct {
        char *name; /* as in the text, with its labels */
        double value;
    } series[SERIES_MAX];
    size_t n;
    char why[256]; /* of a failure */
};

/* Reads the whole text: every family has HELP and TYPE before its samples and is there once, no series is
 * there twice, names and labels are well formed, and histograms are cumulative and complete. Returns false
 * with `why`. */
bool prometheus_read(struct prometheus_text *out, const char *text);
void prometheus_text_clear(struct prometheus_text *t);

/* NAN: no such series. */
double prometheus_value(const struct prometheus_text *t, const char *series);

#endif
