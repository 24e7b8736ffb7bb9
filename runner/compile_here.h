/* compile_here -- compiles a package's codec on this machine, where its object cannot be used: it is for
 * another kind of machine, or only the source is trusted. The source is foreign input, so the compiler runs
 * in a child that sees system folders and a folder of its own (sandbox.h, sandbox_compiler). */
#ifndef PSGD_COMPILE_HERE_H
#define PSGD_COMPILE_HERE_H

#include "shared/plugin/codec_load.h"

/* Compiles ../packages/codec.c in a folder below the working directory, and copies the object to memory as
 * codec_library_copy does. The compiler's output is in the node's log. ERR_CODEC, ERR_IO. */
int compile_here(struct codec_library *out, struct err *e);

#endif
