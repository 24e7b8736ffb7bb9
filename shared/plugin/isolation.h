/* isolation -- the levels at which a codec's code is isolated from the rest of its machine: `isolation` in
 * docs/protocol.md. Each level includes those before it; SECURITY.md states what each promises.
 *
 *     none     limits of memory, descriptors, file size and processor time; nothing else
 *     process  a seccomp filter: no other programs or processes, no debugging, no privileged calls
 *     files    Landlock: of the file system only the job's own folder
 *     user     a user id that no account and no other job has; only an agent that root runs can give it */
#ifndef PSGD_ISOLATION_H
#define PSGD_ISOLATION_H

#include <stdbool.h>

enum isolation { ISOLATION_NONE, ISOLATION_PROCESS, ISOLATION_FILES, ISOLATION_USER };
#define ISOLATION_CHOICES "none|process|files|user" /* in the order of the enum */
enum { ISOLATION_NAME = 8 };                        /* bytes of the longest name, with the NUL */

/* The level that an agent requires by default for codecs that are not its built-in ones. */
#define ISOLATION_DEFAULT ISOLATION_FILES

const char *isolation_name(enum isolation level);
/* Returns whether `text` is a level's name. */
bool isolation_parse(enum isolation *out, const char *text);

#endif
