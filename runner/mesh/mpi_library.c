#include "runner/mesh/mpi_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"

/* In this order: mpirun of Open MPI sets PMIX_RANK, too. */
static const struct launcher_mark {
    const char *variable, *library;
} marks[] = {
    {"OMPI_COMM_WORLD_RANK", "openmpi"},
    {"PMIX_RANK", "openmpi"},
    {"PMI_RANK", "mpich"},
};

static const char *find_library(void)
{
    const char *wanted = getenv("PSGD_MPI");

    if (wanted && wanted[0])
        return wanted;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (getenv(marks[i].variable))
            return marks[i].library;
    return NULL;
}

int mpi_library_load(const struct mesh_transport **out, const char *folder, struct err *e)
{
    const char *name = find_library();
    char dir[PATH_MAX - 64], path[PATH_MAX];
    void *library;

    if (!name)
        return err_set(e, ERR_CONFIG, "no launcher of MPI has started this process");
    if (strchr(name, '/'))
        return err_set(e, ERR_CONFIG, "PSGD_MPI is \"%.80s\", and must be openmpi or mpich", name);
    if (!folder && file_exe_dir(dir, sizeof dir, e) < 0)
        return e->code;
    snprintf(path, sizeof path, "%s%s/%.40s.so", folder ? folder : dir, folder ? "" : "/transports", name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        err_set(e, ERR_CONFIG, "the transport for the MPI %.40s cannot be loaded: %s", name, dlerror());
        return err_hint(e, "psgd is built with it where the compiler of that MPI, mpicc.%.40s, is installed.",
                        name);
    }
    *out = dlsym(library, "mesh_mpi");
    return *out ? 0 : err_set(e, ERR_CONFIG, "%s has no transport", path);
}
