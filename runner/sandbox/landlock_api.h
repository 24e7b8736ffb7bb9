/* landlock_api -- the part of linux/landlock.h that is used here, which the oldest supported headers (Linux
 * 5.10) lack: landlock(7), versions (ABI) 1 to 7. Structures only grow at their end; the kernel is told the
 * size that it knows. */
#ifndef PSGD_LANDLOCK_API_H
#define PSGD_LANDLOCK_API_H

#include <stdint.h>

/* The same numbers on all architectures. */
enum { CALL_LANDLOCK_CREATE = 444, CALL_LANDLOCK_ADD_RULE = 445, CALL_LANDLOCK_RESTRICT = 446 };

enum { LANDLOCK_VERSION_FLAG = 1, LANDLOCK_PATH_BENEATH = 1 };

struct landlock_ruleset {
    uint64_t fs;    /* the rights that are handled: without a rule nothing of them is allowed */
    uint64_t net;   /* since 4 */
    uint64_t scope; /* since 6 */
};

struct landlock_path {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

/* Rights on files and folders. */
#define LL_EXECUTE     (1ULL << 0)
#define LL_WRITE_FILE  (1ULL << 1)
#define LL_READ_FILE   (1ULL << 2)
#define LL_READ_DIR    (1ULL << 3)
#define LL_REMOVE_DIR  (1ULL << 4)
#define LL_REMOVE_FILE (1ULL << 5)
#define LL_MAKE_CHAR   (1ULL << 6)
#define LL_MAKE_DIR    (1ULL << 7)
#define LL_MAKE_REG    (1ULL << 8)
#define LL_MAKE_SOCK   (1ULL << 9)
#define LL_MAKE_FIFO   (1ULL << 10)
#define LL_MAKE_BLOCK  (1ULL << 11)
#define LL_MAKE_SYM    (1ULL << 12)
#define LL_REFER       (1ULL << 13) /* since 2 */
#define LL_TRUNCATE    (1ULL << 14) /* since 3 */
#define LL_IOCTL_DEV   (1ULL << 15) /* since 5 */

#define LL_BIND_TCP    (1ULL << 0)
#define LL_CONNECT_TCP (1ULL << 1)

#define LL_SCOPE_ABSTRACT_UNIX (1ULL << 0)
#define LL_SCOPE_SIGNAL        (1ULL << 1)

#endif
