/* Acts on memory that no limit of private memory counts. */
#include <sys/mman.h>
#include <sys/shm.h>

#include "acts.h"

/* Memory that no limit of private memory counts. */
static int memory_file(void)
{
    return result(memfd_create("hostile", 0));
}
static int share_memory(void)
{
    return mmap(NULL, (size_t)3 << 30, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) ==
                   MAP_FAILED
               ? errno
               : 0;
}
static int take_memory(void)
{
    return mmap(NULL, (size_t)3 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                   MAP_FAILED
               ? errno
               : 0;
}
static int map(int flags)
{
    return mmap(NULL, (size_t)2 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0) ==
                   MAP_FAILED
               ? errno
               : 0;
}
static int grow_down(void)
{
    return map(MAP_GROWSDOWN);
}
static int huge_pages(void)
{
    return map(MAP_HUGETLB | MAP_NORESERVE);
}
static int share_segment(void)
{
    return result(shmget(IPC_PRIVATE, 1 << 20, 0600));
}
static int lock_memory(void)
{
    return result(mlock(hostile_now, sizeof *hostile_now));
}
static int secret_memory(void)
{
    enum { CALL_MEMFD_SECRET = 447 }; /* since Linux 5.14 */

    return result(syscall(CALL_MEMFD_SECRET, 0));
}

const struct act hostile_memory[] = {
    ACT(memory_file),   ACT(share_memory), ACT(take_memory),
    ACT(share_segment), ACT(lock_memory),  ACT(secret_memory),
    ACT(grow_down),     ACT(huge_pages),   {0},
};
