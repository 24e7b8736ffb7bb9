/* trainer_files -- the files of a training program of the user's, read before anything is started: a file, or
 * a folder with all below it. Regular files and folders only: a link might lead to anything. .git,
 * __pycache__, .venv and the results of jobs are left out. */
#ifndef PSGD_SUBMIT_TRAINER_FILES_H
#define PSGD_SUBMIT_TRAINER_FILES_H

#include <stddef.h>

#include "shared/base/err.h"
#include "shared/trainer/trainer_package.h"

#define TRAINER_MAIN "main.py" /* of a folder, unless --main names another */

struct trainer_files {
    struct trainer_file *files; /* (n), by name. Owned, with their bytes */
    size_t n, bytes;            /* bytes: of all */
    bool is_folder;             /* of a folder; otherwise of one file */
    struct trainer_main main;   /* what is run */
    char results[256];          /* folders left out as results of jobs, for printing */
};

/* `path`: --trainer; `main`: --main, a file in the folder, or "". ERR_NOT_FOUND; ERR_CONFIG: a link, a
 * device, a name that is not UTF-8 or too long, too many files or bytes, or a main file that is neither
 * Python's nor executable; ERR_USAGE: --main with a file. *out is empty then. */
int trainer_files_read(struct trainer_files *out, const char *path, const char *main, struct err *e);
void trainer_files_clear(struct trainer_files *f);

/* Prints their names and sizes: the first ones, and with -v all. */
void trainer_files_print(const struct trainer_files *f);

#endif
