#include "runner/compile_here.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/sandbox/sandbox.h"
#include "shared/base/file.h"
#include "shared/plugin/codec_manifest.h"
#include "shared/plugin/compile.h"

enum { SOURCE_MAX = 16 << 20 };

static const char folder[] = "compile";

static int copy_file(const char *to, const char *dir, const char *name, struct err *e)
{
    char from[PATH_MAX], *text;
    size_t len;
    int rc;

    if (file_join(from, sizeof from, dir, name, e) < 0 || file_read(&text, &len, from, SOURCE_MAX, e) < 0)
        return e->code;
    rc = file_write(to, text, len, 0600, e);
    free(text);
    if (rc == 0 && chmod(to, 0644) < 0) /* whatever the umask */
        return err_errno(e, ERR_IO, "%s", to);
    return rc;
}

/* Copies the files, because the compiler may run as another user, who can read neither their folders nor this
 * user's files. */
static int gather_sources(struct err *e)
{
    char exe_dir[PATH_MAX], headers[PATH_MAX];

    if (file_exe_dir(exe_dir, sizeof exe_dir, e) < 0 ||
        compile_find_header(headers, sizeof headers, exe_dir, e) < 0 ||
        file_mkdirs("compile/include", 0700, e) < 0)
        return e->code;
    if (chmod("compile/include", 0755) < 0)
        return err_errno(e, ERR_IO, "%s", folder);
    return copy_file("compile/include/codec.h", headers, "codec.h", e) < 0 ||
                   copy_file("compile/include/codec_option.h", headers, "codec_option.h", e) < 0 ||
                   copy_file("compile/include/codec_events.h", headers, "codec_events.h", e) < 0 ||
                   copy_file("compile/include/wire.h", headers, "wire.h", e) < 0 ||
                   copy_file("compile/include/executor.h", headers, "executor.h", e) < 0 ||
                   copy_file("compile/" CODEC_SOURCE_NAME, "../packages", CODEC_SOURCE_NAME, e) < 0
               ? e->code
               : 0;
}

/* Compiles inside `folder`, and then returns to its parent, because the runner's file names are relative to
 * that. */
static int compile_source(struct codec_library *out, struct err *e)
{
    char here[] = ".";
    int rc;

    if (chdir(folder) < 0)
        return err_errno(e, ERR_IO, "%s", folder);
    rc = compile_confined("cc", CODEC_SOURCE_NAME, CODEC_OBJECT_NAME, here, sandbox_compiler, here, e);
    if (rc == 0)
        rc = codec_library_copy(out, CODEC_OBJECT_NAME, e);
    if (chdir("..") < 0)
        return err_errno(e, ERR_IO, "the node's folder");
    return rc;
}

int compile_here(struct codec_library *out, struct err *e)
{
    struct err ignored;
    int rc = gather_sources(e) < 0 ? e->code : compile_source(out, e);

    file_remove_tree(folder, &ignored);
    return rc;
}
