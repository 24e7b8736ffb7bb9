/* own_root -- what only root may do, as any user: in a user namespace, where the kernel has some. */
#ifndef PSGD_OWN_ROOT_H
#define PSGD_OWN_ROOT_H

#include <sched.h>
#include <stdbool.h>

/* Puts the calling process, which has one thread, into namespaces of these kinds (CLONE_NEW..., 0: none), in
 * which it is root. Where it is not root before, or root may not, a user namespace comes with them. False:
 * there may be none. */
bool own_root(int kinds);

#endif
