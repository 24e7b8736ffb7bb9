#include "agent/jobs/folder_use.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

struct folder_use folder_use(const char *path, size_t most)
{
    struct folder_use use = {0};
    const struct dirent *f;
    DIR *d = opendir(path);
    struct stat st;

    while (d && use.n_files <= most && (f = readdir(d)) != NULL) {
        if (fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        use.bytes += (uint64_t)st.st_blocks * 512;
        use.n_files++;
    }
    if (d)
        closedir(d);
    return use;
}
