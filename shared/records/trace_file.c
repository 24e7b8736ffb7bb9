#include "shared/records/trace_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/base/process.h"

static const char magic[8] = {'P', 'S', 'G', 'D', 'T', 'R', 'C', '1'};
static const uint64_t ns_max = 1ull << 62, count_max = 1ull << 53;

/* Writes the boot's UUID without its dashes. Returns false if it is not available. */
static bool read_boot_id(char out[33])
{
    char uuid[PROCESS_BOOT];
    size_t n = 0;

    process_boot(uuid);
    for (const char *p = uuid; *p && n < 32; p++)
        if (*p != '-')
            out[n++] = *p;
    out[n] = '\0';
    return n == 32 && strspn(out, "0123456789abcdef") == 32;
}

void trace_clock_id(char out[TRACE_CLOCK_ID])
{
    char boot[33];
    struct stat st;

    out[0] = '\0';
    if (read_boot_id(boot) && stat("/proc/self/ns/time", &st) == 0)
        snprintf(out, TRACE_CLOCK_ID, "%s:%lu", boot, (unsigned long)st.st_ino);
}

void trace_head_init(struct trace_head *h, int node)
{
    *h = (struct trace_head){.node = node};
    memcpy(h->magic, magic, sizeof magic);
    trace_clock_id(h->clock_id);
}

static int check_trace_record(const struct trace_record *r, size_t i, struct err *e)
{
    bool is_message = r->kind == TRACE_SENT || r->kind == TRACE_RECEIVED;

    if (r->kind >= N_TRACE_KINDS)
        return err_set(e, ERR_PROTOCOL, "record %zu has an unknown kind (%d)", i + 1, r->kind);
    if (r->begin_ns > ns_max || r->end_ns > ns_max || (!is_message && r->end_ns < r->begin_ns))
        return err_set(e, ERR_PROTOCOL, "record %zu ends before it begins", i + 1);
    if (r->step > count_max || r->round > count_max)
        return err_set(e, ERR_PROTOCOL, "record %zu has an impossible step or round", i + 1);
    return 0;
}

int trace_file_parse(struct trace_head *h, const struct trace_record **records, size_t *n, int node,
                     const void *bytes, size_t len, struct err *e)
{
    const struct trace_record *r = (const struct trace_record *)(const void *)((const char *)bytes +
                                                                               sizeof *h);
    size_t count;

    if (len < sizeof *h || memcmp(bytes, magic, sizeof magic) != 0)
        return err_set(e, ERR_PROTOCOL, "it is not a trace of this version");
    memcpy(h, bytes, sizeof *h);
    h->clock_id[sizeof h->clock_id - 1] = '\0';
    if (h->node != node)
        return err_set(e, ERR_PROTOCOL, "it is the trace of node %d", h->node);
    if (h->n_dropped > count_max)
        return err_set(e, ERR_PROTOCOL, "its count of dropped records is impossible");
    count = (len - sizeof *h) / sizeof *r;
    if (count > TRACE_RECORDS_MAX)
        return err_set(e, ERR_PROTOCOL, "it has %zu records, at most %d are allowed", count,
                       TRACE_RECORDS_MAX);
    for (size_t i = 0; i < count; i++)
        if (check_trace_record(&r[i], i, e) < 0)
            return e->code;
    *records = r;
    *n = count;
    return 0;
}
