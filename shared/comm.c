#include "shared/comm.h"

#include <math.h>
#include <stdio.h>

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

json_t *comm_json(const struct comm *c)
{
    double ratio = (double)c->raw_bytes / (double)c->sent_bytes;
    double share = comm_share(c);
    char key[24];
    json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:I}", "sent_messages", (json_int_t)c->sent_messages,
                          "recv_messages", (json_int_t)c->recv_messages, "raw_bytes",
                          (json_int_t)c->raw_bytes, "sent_bytes", (json_int_t)c->sent_bytes, "recv_bytes",
                          (json_int_t)c->recv_bytes);

    if (!o)
        return NULL;
    json_object_set_new(o, "compression_ratio",
                        c->sent_bytes > 0 ? json_real(round(ratio * 1e4) / 1e4) : json_null());
    for (int i = 0; i < N_STEP_PHASES; i++) {
        snprintf(key, sizeof key, "%s_s", phase_names[i]);
        json_object_set_new(o, key, json_real(round(c->seconds[i] * 1e6) / 1e6));
    }
    json_object_set_new(o, "share", isfinite(share) ? json_real(round(share * 1e4) / 1e4) : json_null());
    return o;
}
