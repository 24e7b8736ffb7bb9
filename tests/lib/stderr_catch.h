/* stderr_catch -- captures what the test's own process writes to stderr. */
#ifndef PSGD_TEST_STDERR_CATCH_H
#define PSGD_TEST_STDERR_CATCH_H

struct stderr_catch {
    char text[1024]; /* the beginning of it */
    int was, from;
};

/* The text written in between must fit into a pipe, or the writer blocks forever. */
void stderr_catch_begin(struct stderr_catch *c);
void stderr_catch_end(struct stderr_catch *c);

#endif
