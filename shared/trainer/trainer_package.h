/* trainer_package -- a user's training program as it is shipped: one safetensors file with a tensor U8 for
 * each of the program's files, whose name is the file's path below the program's folder. Metadata: "main",
 * the file that is run; "python", "1" if the interpreter runs it, else "0"; "executables", the files with the
 * permission to be executed, each followed by a line feed. */
#ifndef PSGD_TRAINER_PACKAGE_H
#define PSGD_TRAINER_PACKAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "shared/records/tensor_file.h"

#define TRAINER_PACKAGE_NAME "trainer.safetensors"

enum {
    TRAINER_FILES_MAX = 1000,
    TRAINER_BYTES_MAX = 64 << 20 /* of all files */
};

/* The file that is run. */
struct trainer_main {
    char file[TENSOR_NAME]; /* its path below the program's folder */
    bool is_python;         /* the interpreter runs it; otherwise it is executed */
};

struct trainer_file {
    char name[TENSOR_NAME];
    const void *bytes;
    size_t len;
    bool is_executable;
};

/* Whether a file may have this path: relative, UTF-8 that can be printed, without empty parts, "." and "..",
 * and short enough for a tensor's name. */
bool trainer_package_has_name(const char *path);

/* Writes the package of n files. ERR_IO, ERR_NOSPACE, ERR_NOMEM. */
int trainer_package_write(const char *path, const struct trainer_file *files, size_t n,
                          const struct trainer_main *main, struct err *e);

/* Creates `folder`, which must not exist, and the package's files in it; *main: what to run. The package is
 * not trusted: no file gets outside of the folder. After an error the folder may have some of the files.
 * ERR_CONFIG: not such a package, or beyond the limits above. ERR_IO, ERR_NOSPACE. */
int trainer_package_unpack(struct trainer_main *main, const char *path, const char *folder, struct err *e);

#endif
