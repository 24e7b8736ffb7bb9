/* scope -- what a token allows, and what a route needs. A higher scope includes the lower ones, with one
 * exception: `read` sees the jobs of all, `submit` only those whose key it presents (docs/protocol.md 1.1).
 */
#ifndef PSGD_SCOPE_H
#define PSGD_SCOPE_H

enum scope {
    SCOPE_READ,   /* sees jobs and their results */
    SCOPE_SUBMIT, /* runs code here: jobs of its own */
    SCOPE_ADMIN   /* everybody's jobs, and whether the agent takes new ones */
};
#define SCOPE_CHOICES "read|submit|admin"

enum needs {
    NEEDS_NOTHING,
    NEEDS_LOCAL, /* nothing from a loopback address, else as read */
    NEEDS_READ,
    NEEDS_SUBMIT,
    NEEDS_ADMIN
};

const char *scope_name(enum scope s);

#endif
