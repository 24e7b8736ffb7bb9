/* sandbox -- gives up, irrevocably, all rights that a codec's code must not have. Called once, after the
 * runner has opened all files that it needs and before any of the codec's code is in the process.
 *
 * The layers, in this order; a layer that the kernel or the user does not allow is left out:
 *
 *   1. own_tree.c  a tree of directories with the run folder and /proc/self only, if the kernel has Landlock
 *                  and either root runs the agent or there are user namespaces
 *   2. own user    root only: own user and group id, no groups, no capabilities; the run folder still belongs
 *                  to root, sticky, with the new group, so that the codec cannot replace files that the
 *                  runner opened before
 *   3. limits      of threads; those of memory, file size, descriptors and processor time, which the agent
 *                  has set, become hard ones
 *   4. dumpable 0  no debugger, and no /proc/PID/mem of another process of the same user
 *   5. landlock.c  opens, creates and removes files in the run folder only; no folders, links, sockets, FIFOs
 *                  or devices in it; no exec; no signals to processes outside; no TCP ports
 *   6. seccomp.c   a list of allowed system calls; others fail with EPERM or end the process
 *
 * Landlock and the user id apply to the calling thread and to threads that it starts later, so the process
 * may have only one: thread pools (OpenBLAS, OpenMP) are started afterwards. A sanitizer's run-time needs
 * calls that no codec makes (ptrace, clone): such a build has layers 2 and 3 only, and reports level none. */
#ifndef PSGD_SANDBOX_H
#define PSGD_SANDBOX_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "shared/base/err.h"
#include "shared/plugin/isolation.h"

struct sandbox {
    enum isolation level;
    int landlock_abi; /* 0: this kernel has none */
    bool has_seccomp, has_own_user, has_own_tree;
    char lacks[256];   /* why the level is not the next one, as a part of a sentence; "" at the highest */
    char no_tree[128]; /* why it has no tree of its own, as a part of a sentence */
};

/* `folder_fd`: the run folder, which is the working folder; it is replaced by the same folder in a tree of
 * its own. -1: none, for a process that only finds out what the kernel allows. ERR_CODEC: the level is below
 * `required`; the layers that the kernel has are entered nevertheless. ERR_INTERNAL: the process has other
 * threads. */
int sandbox_enter(struct sandbox *out, int folder_fd, enum isolation required, struct err *e);
/* In place of sandbox_enter, for a process that needs what the sandbox takes away: only its limits of memory,
 * descriptors, file size and processor time become final, and the level is none. `why`: a part of a sentence,
 * as in `lacks`. ERR_CODEC: a higher level is required. */
int sandbox_forgo(struct sandbox *out, const char *why, enum isolation required, struct err *e);

/* {"level":"files","landlock_abi":7,"seccomp":true,"own_user":false,"own_tree":true,"lacks":"..."}, which
 * `job_runner --isolation` prints. NULL: no memory. */
json_t *sandbox_json(const struct sandbox *s);

/* For struct child_how, between fork and exec of a compiler, in the folder `arg` (a path): the compiler and
 * its helpers read system folders and that folder, write into that folder, have no sockets and no
 * privileged calls, and their user is the job's where root runs the agent. Returns 0, or -1 and errno. */
int sandbox_compiler(void *arg);

/* What a training program at level `files` or `user` (shared/trainer/trainer_isolation.h) may open, besides
 * the system's folders and devices of GPUs. Absolute paths; NULL or "": none. One that does not exist is left
 * out. */
struct trainer_places {
    const char *own;          /* where it may make, run and remove files */
    const char *prefixes[2];  /* of the interpreter's installation and environment: their bin, lib, ... */
    const char *read_only[2]; /* folders that it may read */
};
/* Between fork and exec of the program: confines this process and all that it starts, without capabilities
 * where root runs the agent. `user` > 0: the process becomes that user, and `own`, stdout and stderr become
 * the user's. A folder on the way to one of the places that the user may not enter is replaced, in the
 * process's own mounts, by an empty one with the way to the place alone. Returns 0, or -1 and errno, also if
 * this kernel has no Landlock. */
int sandbox_trainer(const struct trainer_places *p, uid_t user);

/* How many threads a node may have. Where it has a user of its own the kernel enforces that (RLIMIT_NPROC
 * counts all threads of a user), elsewhere the node's monitor does. */
int sandbox_threads(void);
int sandbox_processors(void); /* of this machine; at least 1 */
/* The user and group id of process `pid`, which no account and no other job has: pids are unique among
 * running processes, and the range, 1,879,048,192 and above, is unused by accounts (systemd's UIDS-GIDS lists
 * it as unused). */
uid_t sandbox_user_id(pid_t pid);

/* Layers, one per file. Each returns 1 if the layer is entered, 0 if this kernel or user cannot have it
 * (`why`: a part of a sentence), or ERR_IO. */
int sandbox_own_tree(int folder_fd, char *why, size_t size, struct err *e);
/* The kernel's version of Landlock; -1 and errno: it has none. */
int landlock_version(void);
/* For sandbox_trainer with a user: 0, or -1 and errno. */
int own_tree_for_trainer(const struct trainer_places *p);
/* *abi: landlock_version. */
int sandbox_landlock(int folder_fd, int *abi, char *why, size_t size, struct err *e);
int sandbox_seccomp(char *why, size_t size, struct err *e);

/* For sandbox_compiler. Each returns 0, or -1 and errno; 0 also where the kernel lacks the layer. */
int landlock_for_compiler(const char *folder);
int seccomp_for_compiler(void);
/* For sandbox_trainer: 0, or -1 and errno. no_new_privs must be set. */
int landlock_for_trainer(const struct trainer_places *p);

#endif
