/* The process that makes curves: it reads rows that a codec's process may have written, and ends. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/api/curve.h"
#include "shared/records/artifacts.h"

enum { RECORDS = 3, N_ARGS = 8 };

static const char *argument(char **argv, int i)
{
    return argv[i][0] ? argv[i] : NULL;
}

static int make_curves(const struct series_query *q, struct err *e)
{
    struct series_request r;
    struct series *s = NULL;
    int rc = series_request_set(&r, q, e);

    if (rc == 0)
        rc = series_new(&s, &r, e);
    if (rc == 0 && fcntl(RECORDS, F_GETFD) >= 0) /* else there are none yet */
        rc = series_read(s, RECORDS, artifact_name((enum artifact_id)r.file), e);
    if (rc == 0)
        rc = series_write(stdout, s, e);
    if (rc == 0 && fflush(stdout) != 0)
        rc = err_errno(e, ERR_IO, "the document");
    series_free(s);
    return rc;
}

int curve_main(int argc, char **argv)
{
    struct err e = {0};
    struct series_query q;

    if (argc != N_ARGS) {
        fputs("agent: `agent curves` is for the agent itself; agent --help lists what is for you\n", stderr);
        return 2;
    }
    prctl(PR_SET_NAME, "agent_curves"); /* else it is shown by the name of the link /proc/self/exe */
    q = (struct series_query){.file = argument(argv, 2),
                              .names = argument(argv, 3),
                              .x = argument(argv, 4),
                              .points = argument(argv, 5),
                              .from = argument(argv, 6),
                              .to = argument(argv, 7)};
    if (make_curves(&q, &e) == 0)
        return EXIT_SUCCESS;
    /* In place of the document, of which a part may be there. */
    if (ftruncate(STDOUT_FILENO, 0) == 0 && lseek(STDOUT_FILENO, 0, SEEK_SET) == 0)
        dprintf(STDOUT_FILENO, "%s", e.text);
    _exit(EXIT_FAILURE); /* what stdio still holds is not written */
}
