/* A job's curves as TensorBoard's event files. The wall time of an event is the node's start plus the row's
 * time_s.
 *
 * A file is TFRecords: u64 length, masked CRC-32C of these 8 bytes, the message, masked CRC-32C of it;
 * all numbers little-endian; masked: rotated right by 15 bits, plus 0xa282ead8
 * (tensorflow/core/lib/io/record_writer.h, tsl/lib/hash/crc32c.h). A message is an Event
 * (tensorflow/core/util/event.proto):
 *     1 wall_time, a double   2 step, int64   3 file_version, text   5 summary
 * and a summary (tensorflow/core/framework/summary.proto) has fields 1, a value each:
 *     1 tag, text   2 simple_value, a float
 * The first event has the file_version "brain.Event:2". */
#include <endian.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/crc32c.h"
#include "submit/export/export.h"
#include "submit/export/protobuf.h"
#include "submit/files/appender.h"
#include "submit/results/run.h"

enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2 };

struct tensorboard_writing {
    const json_t *run;
    const char *to;
    struct appender files;
    int node; /* of `began` and `path` */
    bool has_node;
    double began;
    char path[PATH_MAX];
};

static uint32_t masked(const void *bytes, size_t len)
{
    uint32_t crc = crc32c(bytes, len);

    return htole32((crc >> 15 | crc << 17) + 0xa282ead8U);
}

/* Writes the event and clears it. appender_end() reports a failed write. */
static int put_event(FILE *f, struct protobuf *event, struct err *e)
{
    uint64_t len = htole64(event->len);
    uint32_t of_len = masked(&len, sizeof len), of_event = masked(event->bytes, event->len);
    bool has_failed = event->failed;

    if (!has_failed) {
        fwrite(&len, sizeof len, 1, f);
        fwrite(&of_len, sizeof of_len, 1, f);
        fwrite(event->bytes, 1, event->len, f);
        fwrite(&of_event, sizeof of_event, 1, f);
    }
    protobuf_clear(event);
    return has_failed ? err_set(e, ERR_NOMEM, "no memory for an event") : 0;
}

static int put_version(FILE *f, double began, struct err *e)
{
    struct protobuf event = {0};

    protobuf_double(&event, EVENT_WALL_TIME, began);
    protobuf_text(&event, EVENT_FILE_VERSION, "brain.Event:2");
    return put_event(f, &event, e);
}

static int put_scalars(FILE *f, const struct scalars *s, double began, struct err *e)
{
    struct protobuf event = {0}, summary = {0};

    for (size_t i = 0; i < s->n; i++) {
        struct protobuf value = {0};

        protobuf_text(&value, VALUE_TAG, s->at[i].tag);
        protobuf_float(&value, VALUE_SIMPLE, (float)s->at[i].value);
        protobuf_message(&summary, SUMMARY_VALUE, &value);
    }
    protobuf_double(&event, EVENT_WALL_TIME, began + s->time_s);
    protobuf_int(&event, EVENT_STEP, (int64_t)s->step);
    protobuf_message(&event, EVENT_SUMMARY, &summary);
    return put_event(f, &event, e);
}

static int choose_file(struct tensorboard_writing *w, int node, struct err *e)
{
    char name[RUN_NODE_NAME];

    if (w->has_node && w->node == node)
        return 0;
    w->node = node;
    w->has_node = true;
    w->began = run_node_began(w->run, node);
    if (snprintf(w->path, sizeof w->path, "%s/%s/events.out.tfevents.%.0f.psgd", w->to,
                 run_node_name(name, node), w->began) >= (int)sizeof w->path)
        return err_set(e, ERR_IO, "%s: the name is too long", w->to);
    return 0;
}

static int use_scalars(const struct scalars *s, void *with, struct err *e)
{
    struct tensorboard_writing *w = with;
    bool is_new;
    FILE *f;

    if (choose_file(w, s->node, e) < 0 || appender_file(&w->files, &f, &is_new, w->path, e) < 0 ||
        (is_new && put_version(f, w->began, e) < 0))
        return e->code;
    return put_scalars(f, s, w->began, e);
}

int tensorboard_write(const char *folder, const json_t *run, const char *to, struct err *e)
{
    struct tensorboard_writing w = {.run = run, .to = to};
    int rc = run_scalars(folder, use_scalars, &w, e);

    return appender_end(&w.files, rc, e);
}
