#include "shared/job/comm.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "shared/base/json.h"

const char *const phase_names[N_PHASES] = {"compute", "encode", "send",     "wait",
                                           "decode",  "apply",  "evaluate", "checkpoint"};

void comm_add(struct comm *sum, const struct comm *c)
{
    sum->sent_messages += c->sent_messages;
    sum->recv_messages += c->recv_messages;
    sum->raw_bytes += c->raw_bytes;
    sum->sent_bytes += c->sent_bytes;
    sum->recv_bytes += c->recv_bytes;
    for (int i = 0; i < N_STEP_PHASES; i++)
        sum->seconds[i] += c->seconds[i];
}

double comm_share(const struct comm *c)
{
    double own = c->seconds[PHASE_COMPUTE] + c->seconds[PHASE_APPLY];
    double all = 0;

    for (int i = 0; i < N_STEP_PHASES; i++)
        all += c->seconds[i];
    return all > 0 ? (all - own) / all : NAN;
}

static const struct {
    const char *key;
    size_t offset;
} counts[] = {
    {"sent_messages", offsetof(struct comm, sent_messages)},
    {"recv_messages", offsetof(struct comm, recv_messages)},
    {"raw_bytes", offsetof(struct comm, raw_bytes)},
    {"sent_bytes", offsetof(struct comm, sent_bytes)},
    {"recv_bytes", offsetof(struct comm, recv_bytes)},
};
enum { N_COUNTS = sizeof counts / sizeof *counts, KEY = 24 };

static uint64_t *count_of(const struct comm *c, int i)
{
    return (uint64_t *)(uintptr_t)((const char *)c + counts[i].offset);
}

static const char *key_of(char out[KEY], int phase)
{
    snprintf(out, KEY, "%s_s", phase_names[phase]);
    return out;
}

json_t *comm_json(const struct comm *c)
{
    double ratio = (double)c->raw_bytes / (double)c->sent_bytes;
    double share = comm_share(c);
    json_t *o = json_object();
    char key[KEY];

    if (!o)
        return NULL;
    for (int i = 0; i < N_COUNTS; i++)
        json_object_set_new(o, counts[i].key, json_integer((json_int_t)*count_of(c, i)));
    json_object_set_new(o, "compression_ratio",
                        c->sent_bytes > 0 ? json_real(round(ratio * 1e4) / 1e4) : json_null());
    for (int i = 0; i < N_STEP_PHASES; i++)
        json_object_set_new(o, key_of(key, i), json_real(round(c->seconds[i] * 1e6) / 1e6));
    json_object_set_new(o, "share", json_real_or_null(round(share * 1e4) / 1e4));
    return o;
}

void comm_update(struct comm *c, const json_t *o)
{
    char key[KEY];

    for (int i = 0; i < N_COUNTS; i++) {
        const json_t *v = json_object_get(o, counts[i].key);

        if (json_is_integer(v) && json_integer_value(v) >= 0)
            *count_of(c, i) = (uint64_t)json_integer_value(v);
    }
    for (int i = 0; i < N_STEP_PHASES; i++) {
        const json_t *v = json_object_get(o, key_of(key, i));

        if (json_is_number(v) && json_number_value(v) >= 0)
            c->seconds[i] = json_number_value(v);
    }
}
