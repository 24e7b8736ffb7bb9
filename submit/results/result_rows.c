#include "submit/results/result_rows.h"

#include <limits.h>
#include <math.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "submit/files/untrusted_folder.h"

int result_rows(const char *folder, const struct artifact *a,
                int (*row)(void *ctx, const struct record_text *cells, struct err *e), void *ctx,
                struct err *e)
{
    const char *columns[RECORD_COLUMNS_MAX];
    const size_t n = artifact_columns(columns, a);
    char path[PATH_MAX];
    uint64_t bytes;
    int dir, fd, rc;

    if (file_join(path, sizeof path, folder, a->path, e) < 0 || folder_open(&dir, folder, e) < 0)
        return e->code;
    rc = folder_file(&fd, &bytes, dir, a->path, e);
    close(dir);
    if (rc < 0)
        return rc == ERR_NOT_FOUND ? 0 : rc;
    rc = record_scan_file(&(struct record_scan){.what = path,
                                                .columns = columns,
                                                .n = n,
                                                .needed = (uint32_t)1 << artifact_column(a, "node"),
                                                .is_strict = true,
                                                .row = row,
                                                .ctx = ctx},
                          fd, e);
    close(fd);
    return rc;
}

double result_number(const struct record_text *cell)
{
    double v = record_number(cell);

    return v == RECORD_MISSING ? NAN : v;
}
