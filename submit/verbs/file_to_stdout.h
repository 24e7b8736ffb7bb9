/* file_to_stdout -- "-" in place of a file that a verb writes is standard output, as in curl: the verb writes
 * a temporary file, what it says goes to standard error, and the file is copied when it is whole. Elsewhere
 * "-" is refused: job_submit reads no file from standard input, and a folder goes nowhere. */
#ifndef PSGD_SUBMIT_FILE_TO_STDOUT_H
#define PSGD_SUBMIT_FILE_TO_STDOUT_H

#include "submit/files/temp.h"
#include "submit/options/submit_options.h"

struct file_to_stdout {
    struct temp folder;
    char path[PATH_MAX]; /* "": no file goes to standard output */
    int fd;              /* standard output, while 1 is standard error */
};

/* Before a verb runs: replaces the "-" in its options. ERR_USAGE: it cannot be there. */
int file_to_stdout_begin(struct file_to_stdout *f, struct options *o, unsigned verb, struct err *e);
/* After it: copies what it has written if its status `rc` is 0. Returns rc, or ERR_IO. */
int file_to_stdout_end(struct file_to_stdout *f, int rc, struct err *e);

#endif
