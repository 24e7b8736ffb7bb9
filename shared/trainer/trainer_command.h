/* trainer_command -- how a training program is started: the command, and its environment. The file that is
 * run is in the folder of the unpacked package (trainer_package.h), which becomes its working directory, so
 * that it finds its other files. */
#ifndef PSGD_TRAINER_COMMAND_H
#define PSGD_TRAINER_COMMAND_H

#include "shared/base/child.h"
#include "shared/base/err.h"
#include "shared/trainer/trainer_package.h"

enum { TRAINER_FD = 3 }; /* the program's end of the socket, in the program */

#define TRAINER_PYTHON "python3" /* the interpreter, unless an option names another */

struct trainer_command {
    char **argv; /* ends with NULL. Owned */
    char *text;  /* in which argv points. Owned */
};

/* `python`: the interpreter, a path or a name to search in $PATH; `arguments`: of the program, each followed
 * by a line feed. ERR_NOMEM; ERR_CONFIG: a path is too long. */
int trainer_command_init(struct trainer_command *c, const struct trainer_main *main, const char *folder,
                         const char *python, const char *arguments, struct err *e);
void trainer_command_clear(struct trainer_command *c);

/* Sets the environment of this process, which is about to become the program: the number of its socket, and
 * where the interpreter finds psgd's own modules, python/ beside this program's executable, before others of
 * the same name; its output is not buffered, so that the log has the last line before its end; memory that
 * it frees stays with it for its next step, unless these variables are set already. For `confine`
 * of shared/base/child.h: `arg` is not used. -1 and errno. */
int trainer_command_set_environment(void *arg);

/* Starts the command in `folder`, with `output` as its standard output and error. `confine`: as in struct
 * child_how. Returns psgd's end of the socket, whose other end is open in the program alone, or a code;
 * ERR_TRAINER: it cannot be run. After an error there is no child. */
int trainer_command_start(struct child *child, const struct trainer_command *c, const char *folder,
                          int output, int (*confine)(void *arg), struct err *e);

#endif
