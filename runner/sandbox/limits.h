/* limits -- how many threads a node may have. Where it has a user of its own the kernel holds it to that
 * (RLIMIT_NPROC counts all threads of a user), elsewhere its monitor does. */
#ifndef PSGD_SANDBOX_LIMITS_H
#define PSGD_SANDBOX_LIMITS_H

int limits_processors(void); /* of this machine; at least 1 */
int limits_threads(void);

#endif
