/* own_root -- root's privileges for any user: in a user namespace, where the kernel has them. */
#ifndef PSGD_OWN_ROOT_H
#define PSGD_OWN_ROOT_H

#include <sched.h>
#include <stdbool.h>

/* Puts the calling process, which must have one thread, into namespaces of these kinds (CLONE_NEW..., 0:
 * none), in which it is root. If it was not root before, or lacks the privilege, a user namespace is added.
 * False: not permitted. */
bool own_root(int kinds);

#endif
