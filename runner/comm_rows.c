#include "runner/comm_rows.h"

static size_t add_row(struct record_comm *out, struct record_comm row, const char *direction,
                      const struct exchange_traffic *t, double encode_s)
{
    if (t->messages == 0)
        return 0;
    row.direction = direction;
    row.messages = t->messages;
    row.raw_bytes = t->raw_bytes;
    row.wire_bytes = t->wire_bytes;
    row.encode_s = encode_s;
    row.transfer_s = t->transfer_s;
    *out = row;
    return 1;
}

size_t comm_rows(struct record_comm out[2], const struct exchange *x, struct record_comm row)
{
    const struct exchange_traffic *sent = exchange_sent(x, row.peer);
    size_t n = add_row(out, row, "sent", sent, sent->encode_s);

    return n + add_row(out + n, row, "received", exchange_received(x, row.peer), RECORD_MISSING);
}
