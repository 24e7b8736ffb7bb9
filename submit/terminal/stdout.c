#include "submit/terminal/stdout.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/json.h"
#include "submit/terminal/exit_status.h"

/* As in gnulib's stdopen: descriptors 0 to 2 are opened for the wrong direction, so that I/O on them fails,
 * as it does on a closed descriptor. */
void stdout_init(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            break; /* later opens fail as well and report it */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the file size limit then fails, as on a full disk */
}

bool stdout_has_failed(void)
{
    return ferror(stdout);
}

/* The errno of the failed write is lost by now, but poll on a pipe reports that it has no reader. */
static bool has_no_reader(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO};

    return poll(&p, 1, 0) > 0 && p.revents & POLLERR;
}

int stdout_finish(struct err *e)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    if (has_no_reader())
        return 128 + SIGPIPE;
    err_set(e, ERR_IO, "standard output could not be written");
    return err_hint(e, "It is closed, or its disk is full.");
}

void stdout_json(bool ok, json_t *data, const struct err *e, const char *code)
{
    json_t *o = json_pack("{s:s, s:b}", "schema_version", "1", "ok", (int)ok);
    char *text;

    if (e)
        json_object_set_new(o, "error",
                            json_pack("{s:s+, s:s, s:o, s:o?, s:i}", "type", "/problems/", code, "code", code,
                                      "detail", json_text(e->text, SIZE_MAX), "hint",
                                      e->hint[0] ? json_text(e->hint, SIZE_MAX) : NULL, "exit_status",
                                      exit_status_of(e->code)));
    if (data)
        json_object_set_new(o, "data", data);
    /* Same precision as run.json: 0.09, not 0.089999999999999997. */
    text = json_dump(o, JSON_COMPACT);
    printf("%s\n", text ? text : "{\"schema_version\":\"1\",\"ok\":false}");
    free(text);
    json_decref(o);
}
