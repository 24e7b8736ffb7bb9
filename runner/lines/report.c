#include "runner/lines/report.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/exchange/stall.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/reason.h"
#include "shared/records/artifacts.h"

static const double EVERY_S = 0.2; /* from one progress event to the next */
enum { LAST_LINE = 4096 /* bytes at most */ };

int report_open(struct report *r, struct err *e)
{
    *r = (struct report){
        .fd = open(artifact_name(ARTIFACT_EVENTS), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
    return r->fd < 0 ? err_errno(e, ERR_IO, "%s", artifact_name(ARTIFACT_EVENTS)) : 0;
}

void report_close(struct report *r)
{
    close(r->fd);
    r->fd = -1;
}

/* Writes the line, if `room` more bytes fit on the disk, too; releases it. */
static int queue_line(struct report *r, json_t *line, size_t room, struct err *e)
{
    const char *file = artifact_name(ARTIFACT_EVENTS);
    char *text = line ? json_line(line) : NULL;
    int rc;

    if (!text)
        rc = err_set(e, ERR_NOMEM, "%s: no memory for a line", file);
    else if (!file_keep_room(r->fd, strlen(text) + room))
        rc = err_set(e, ERR_NOSPACE, "%s: no space is left on the disk", file);
    else
        rc = file_write_all(r->fd, text, strlen(text), file, e);
    free(text);
    json_decref(line);
    return rc;
}

/* Writes a line only if the last one, which reports a full disk, still fits. */
static int put_line(struct report *r, json_t *line, struct err *e)
{
    return queue_line(r, line, LAST_LINE, e);
}

/* Writes a line that may be dropped. */
static void write_line(struct report *r, json_t *line)
{
    put_line(r, line, &(struct err){0});
}

void report_engine(struct report *r, const char *text)
{
    write_line(r, json_pack("{ss ss}", "event", "engine", "text", text));
}

int report_isolation(struct report *r, const struct sandbox *s, struct err *e)
{
    return put_line(
        r, json_pack("{ss ss ss}", "event", "isolation", "level", isolation_name(s->level), "text", s->lacks),
        e);
}

int report_ready(struct report *r, const char *codec_sha256, uint64_t n_params,
                 const uint8_t data_key[SHA256_BYTES], struct err *e)
{
    char key[SHA256_HEX];

    hex_encode(key, data_key, SHA256_BYTES);
    return put_line(r,
                    json_pack("{ss ss sI ss}", "event", "ready", "codec_sha256", codec_sha256, "n_params",
                              (json_int_t)n_params, "data_key", key),
                    e);
}

bool report_is_due(struct report *r, double now)
{
    if (now - r->last_progress < EVERY_S)
        return false;
    r->last_progress = now;
    return true;
}

void report_progress(struct report *r, const struct report_progress *p)
{
    const struct exchange_totals *t = &p->traffic;
    json_t *line = json_pack(
        "{ss si si sI sI sI so so sI sI sI sI sI so}", "event", "progress", "epoch", p->epoch, "epochs",
        p->epochs, "step", (json_int_t)p->step, "steps", (json_int_t)p->steps, "samples",
        (json_int_t)p->samples, "loss", json_real_or_null(p->loss), "accuracy",
        json_real_or_null(p->accuracy), "sent_messages", (json_int_t)t->sent_messages, "recv_messages",
        (json_int_t)t->recv_messages, "raw_bytes", (json_int_t)t->raw_bytes, "sent_bytes",
        (json_int_t)t->sent_bytes, "recv_bytes", (json_int_t)t->recv_bytes, "waits_for",
        p->waits_for == STALL_NO_NODE ? json_null() : json_integer(p->waits_for));
    char key[24];

    for (int i = 0; line && i < N_STEP_PHASES; i++) {
        snprintf(key, sizeof key, "%s_s", phase_names[i]);
        json_object_set_new(line, key, json_real(round(p->spent[i] * 1e6) / 1e6));
    }
    write_line(r, line);
}

void report_eval(struct report *r, const struct report_progress *p)
{
    write_line(r,
               json_pack("{ss si sI so so}", "event", "eval", "epoch", p->epoch, "step", (json_int_t)p->step,
                         "loss", json_real_or_null(p->loss), "accuracy", json_real_or_null(p->accuracy)));
}

void report_model(struct report *r, uint64_t step, const char *error)
{
    write_line(r, json_pack("{ss sI so*}", "event", "model", "step", (json_int_t)step, "error",
                            error ? json_text(error, SIZE_MAX) : NULL));
}

void report_stopped(struct report *r, const struct stop *s)
{
    json_t *line = json_pack("{ss}", "event", "stopped"), *what = stop_json(s);

    if (json_object_update(line, what) < 0) {
        json_decref(line);
        line = NULL;
    }
    json_decref(what);
    write_line(r, line);
}

void report_result(struct report *r, const char *params_sha256, bool combined_nothing)
{
    write_line(r, json_pack("{ss ss sb}", "event", "result", "params_sha256", params_sha256,
                            "combined_nothing", (int)combined_nothing));
}

void report_warn(struct report *r, const char *text)
{
    fprintf(stderr, "WARN: %s\n", text);
    write_line(r,
               json_pack("{ss ss so}", "event", "log", "level", "warn", "text", json_text(text, SIZE_MAX)));
}

static const struct report_ending endings[] = {
    {ERR_CODEC, "failed", REASON_CODEC_FAILED},
    {ERR_TRAINER, "failed", REASON_TRAINER_FAILED},
    {ERR_LOST, "failed", REASON_NODE_LOST},
    {ERR_AUTH, "failed", REASON_NODE_LOST},
    {ERR_PROTOCOL, "failed", REASON_NODE_LOST},
    {ERR_TIMEOUT, "failed", REASON_ROUND_TIMEOUT},
    {ERR_NUMERIC, "failed", REASON_NUMERIC_DIVERGENCE},
    {ERR_NOSPACE, "failed", REASON_DISK_FULL},
    {ERR_NOMEM, "failed", REASON_OUT_OF_MEMORY},
    {ERR_CANCELLED, "cancelled", REASON_USER_CANCELLED},
    {ERR_INTERNAL, "failed", REASON_INTERNAL}, /* and any other */
};
enum { N_ENDINGS = sizeof endings / sizeof *endings };

const struct report_ending *report_ending(int code)
{
    int i = 0;

    while (i < N_ENDINGS - 1 && endings[i].code != code)
        i++;
    return &endings[i];
}

void report_end(struct report *r, const char *state, const char *reason, const char *message)
{
    queue_line(r,
               json_pack("{ss ss ss? so}", "event", "end", "state", state, "reason", reason, "message",
                         json_text(message, SIZE_MAX)),
               0, &(struct err){0}); /* without this line the agent reports that the runner has crashed */
}
