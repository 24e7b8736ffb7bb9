/* stderr_catch -- what a test's own process writes to stderr. */
#ifndef PSGD_TEST_STDERR_CATCH_H
#define PSGD_TEST_STDERR_CATCH_H

struct stderr_catch {
    char text[1024]; /* the beginning of it */
    int was, from;
};

/* What is written in between must fit into a pipe, or it is waited for without end. */
void stderr_catch_begin(struct stderr_catch *c);
void stderr_catch_end(struct stderr_catch *c);

#endif
