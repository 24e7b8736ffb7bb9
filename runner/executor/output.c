#include "runner/executor/output.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codecs/executor.h"
#include "shared/base/file.h"
#include "shared/records/artifacts.h"

int output_open(struct output *o, struct err *e)
{
    const char *name = artifact_name(ARTIFACT_OUTPUT);

    *o = (struct output){.held = malloc(OUTPUT_HELD), .fd = -1};
    if (!o->held)
        return err_set(e, ERR_NOMEM, "no memory for %s", name);
    o->fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return o->fd < 0 ? err_errno(e, ERR_IO, "%s", name) : 0;
}

static int flush_line(struct output *o, struct err *e)
{
    size_t n = o->n_held;

    o->n_held = 0;
    return file_write_all(o->fd, o->held, n, artifact_name(ARTIFACT_OUTPUT), e);
}

int output_write(struct output *o, const void *bytes, size_t n, struct err *e)
{
    if (n > EXECUTOR_OUTPUT_MAX - o->n_bytes)
        return err_set(e, ERR_CODEC, "its %s would have more than %zu bytes", artifact_name(ARTIFACT_OUTPUT),
                       EXECUTOR_OUTPUT_MAX);
    o->n_bytes += n;
    if (n > OUTPUT_HELD - o->n_held && flush_line(o, e) < 0)
        return e->code;
    if (n > OUTPUT_HELD)
        return file_write_all(o->fd, bytes, n, artifact_name(ARTIFACT_OUTPUT), e);
    if (n > 0)
        memcpy(o->held + o->n_held, bytes, n);
    o->n_held += n;
    return 0;
}

int output_sync(struct output *o, struct err *e)
{
    if (flush_line(o, e) < 0)
        return e->code;
    return fsync(o->fd) < 0 ? err_errno(e, ERR_IO, "%s", artifact_name(ARTIFACT_OUTPUT)) : 0;
}

void output_close(struct output *o)
{
    if (o->held && o->fd >= 0)
        close(o->fd);
    free(o->held);
    *o = (struct output){.fd = -1};
}
