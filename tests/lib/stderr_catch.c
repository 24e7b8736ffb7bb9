#include "tests/lib/stderr_catch.h"

#include <unistd.h>

#include "tests/unit/unit.h"

void stderr_catch_begin(struct stderr_catch *c)
{
    int fds[2];

    *c = (struct stderr_catch){.was = dup(STDERR_FILENO)};
    assert_int_equal(pipe(fds), 0);
    assert_true(c->was >= 0 && dup2(fds[1], STDERR_FILENO) >= 0);
    close(fds[1]);
    c->from = fds[0];
}

void stderr_catch_end(struct stderr_catch *c)
{
    dup2(c->was, STDERR_FILENO); /* which was the last writer of the pipe: the read ends */
    close(c->was);
    assert_true(read(c->from, c->text, sizeof c->text - 1) >= 0);
    close(c->from);
}
