#include "tests/lib/prometheus_check.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct prometheus_text *out;
    char family[128], type[16];
    bool has_help;
    char families[4096]; /* " name name " of all so far */
    /* Of the histogram's series that is read: its labels but le, its last bucket and bound. */
    char bucket_of[512];
    double bucket, last_bound;
};

static bool fail(struct reading *r, const char *why, const char *line)
{
    snprintf(r->out->why, sizeof r->out->why, "%s: %.150s", why, line);
    return false;
}

static size_t name_length(const char *text)
{
    size_t n = 0;

    while (isalpha((unsigned char)text[n]) || text[n] == '_' || text[n] == ':' ||
           (n > 0 && isdigit((unsigned char)text[n])))
        n++;
    return n;
}

static bool read_comment(struct reading *r, const char *line)
{
    bool is_help = strncmp(line, "# HELP ", 7) == 0;
    const char *name = line + 7;
    size_t n = name_length(name);
    char padded[160];

    if ((!is_help && strncmp(line, "# TYPE ", 7) != 0) || n == 0 || n >= sizeof r->family || name[n] != ' ')
        return fail(r, "not a comment of the format", line);
    if (!is_help) {
        if (!r->has_help || strlen(r->family) != n || memcmp(name, r->family, n) != 0 || r->type[0])
            return fail(r, "TYPE without its HELP", line);
        snprintf(r->type, sizeof r->type, "%s", name + n + 1);
        return strcmp(r->type, "counter") == 0 || strcmp(r->type, "gauge") == 0 ||
               strcmp(r->type, "histogram") == 0 || fail(r, "no such type", line);
    }
    snprintf(padded, sizeof padded, " %.*s ", (int)n, name);
    if (strstr(r->families, padded))
        return fail(r, "a family is there twice", line);
    strncat(r->families, padded, sizeof r->families - strlen(r->families) - 1);
    snprintf(r->family, sizeof r->family, "%.*s", (int)n, name);
    r->type[0] = '\0';
    r->has_help = true;
    r->bucket_of[0] = '\0';
    return name[n + 1] || fail(r, "HELP without a text", line);
}

/* Reads {name="value",...}; the labels but `le` to `others`. Returns the rest of the text; NULL:
 * malformed. */
static const char *read_labels(const char *p, char others[512], double *le)
{
    *le = NAN;
    others[0] = '\0';
    if (*p != '{')
        return p;
    do {
        const char *label = ++p;
        size_t n = name_length(p);

        if (n == 0 || strncmp(p + n, "=\"", 2) != 0)
            return NULL;
        for (p += n + 2; *p && *p != '"'; p++)
            if (*p == '\\' && !strchr("\\n\"", *++p))
                return NULL;
        if (*p++ != '"')
            return NULL;
        if (n == 2 && memcmp(label, "le", 2) == 0)
            *le = strtod(label + 4, NULL);
        else
            strncat(others, label, (size_t)(p - label) < 511 - strlen(others) ? (size_t)(p - label) : 0);
    } while (*p == ',');
    return *p == '}' ? p + 1 : NULL;
}

/* `suffix`: the text after the family's name. */
static bool read_bucket(struct reading *r, const char *suffix, const char *labels, double le, double v,
                        const char *line)
{
    bool is_next = strcmp(labels, r->bucket_of) == 0;

    if (strncmp(suffix, "_bucket", 7) == 0) {
        if (isnan(le) || (is_next && (v < r->bucket || le <= r->last_bound)))
            return fail(r, "buckets are not cumulative", line);
        snprintf(r->bucket_of, sizeof r->bucket_of, "%s", labels);
        r->bucket = v;
        r->last_bound = le;
        return true;
    }
    if (!is_next || r->last_bound != INFINITY)
        return fail(r, "no bucket for all observations", line);
    return strncmp(suffix, "_sum", 4) == 0 || (strncmp(suffix, "_count", 6) == 0 && v == r->bucket) ||
           fail(r, "not the count of the last bucket", line);
}

static bool read_sample(struct reading *r, const char *line)
{
    size_t n = name_length(line), n_family = strlen(r->family);
    bool is_histogram = strcmp(r->type, "histogram") == 0;
    char labels[512], *end;
    double le, v;
    const char *p = read_labels(line + n, labels, &le);

    if (!r->type[0] || n < n_family || memcmp(line, r->family, n_family) != 0 ||
        (!is_histogram && n != n_family))
        return fail(r, "a sample of another family", line);
    if (!p || *p != ' ')
        return fail(r, "malformed labels", line);
    v = strtod(p + 1, &end);
    if (end == p + 1 || *end)
        return fail(r, "malformed value", line);
    for (size_t i = 0; i < r->out->n; i++)
        if (strncmp(r->out->series[i].name, line, (size_t)(p - line)) == 0 &&
            !r->out->series[i].name[p - line])
            return fail(r, "a series is there twice", line);
    if (r->out->n == SERIES_MAX)
        return fail(r, "too many series", line);
    r->out->series[r->out->n].name = strndup(line, (size_t)(p - line));
    r->out->series[r->out->n++].value = v;
    return !is_histogram || read_bucket(r, line + n_family, labels, le, v, line);
}

bool prometheus_read(struct prometheus_text *out, const char *text)
{
    static struct reading r;

    r = (struct reading){.out = out};
    out->n = 0;
    out->why[0] = '\0';
    while (*text) {
        size_t n = strcspn(text, "\n");
        char line[1024];

        if (!text[n] || n >= sizeof line)
            return fail(&r, "a line without its end, or too long", text);
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        if (!(line[0] == '#' ? read_comment(&r, line) : read_sample(&r, line)))
            return false;
        text += n + 1;
    }
    return out->n > 0;
}

void prometheus_text_clear(struct prometheus_text *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->series[i].name);
    t->n = 0;
}

double prometheus_value(const struct prometheus_text *t, const char *series)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->series[i].name, series) == 0)
            return t->series[i].value;
    return NAN;
}
