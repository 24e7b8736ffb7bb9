#include "submit/results/run_series.h"

#include <stdlib.h>
#include <unistd.h>

#include "shared/base/json.h"
#include "shared/records/artifacts.h"
#include "submit/files/untrusted_folder.h"

int run_series_write(FILE *out, const char *folder, const struct series_request *r, struct err *e)
{
    const char *path = artifacts[r->file].path;
    struct series *s = NULL;
    uint64_t bytes;
    int dir, fd, rc;

    if (folder_open(&dir, folder, e) < 0)
        return e->code;
    rc = folder_file(&fd, &bytes, dir, path, e);
    close(dir);
    if (rc < 0)
        return err_at(e, "%s", folder);
    rc = series_new(&s, r, e) < 0 || series_read(s, fd, path, e) < 0 || series_write(out, s, e) < 0
             ? err_at(e, "%s", folder)
             : 0;
    series_free(s);
    close(fd);
    return rc;
}

int run_series(json_t **out, const char *folder, const struct series_request *r, struct err *e)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int rc;

    if (!f)
        return err_set(e, ERR_NOMEM, "no memory for the series");
    rc = run_series_write(f, folder, r, e);
    if (fclose(f) != 0 && rc == 0)
        rc = err_set(e, ERR_NOMEM, "no memory for the series");
    if (rc == 0)
        rc = json_parse(out, text, size, "series", e);
    free(text);
    return rc;
}

void run_series_each(const json_t *node, const char *name, void (*point)(void *ctx, double x, double y),
                     void *ctx)
{
    const json_t *x = json_object_get(node, "x"), *y = json_object_get(node, name);

    for (size_t i = 0; i < json_array_size(x) && i < json_array_size(y); i++)
        if (json_is_number(json_array_get(x, i)) && json_is_number(json_array_get(y, i)))
            point(ctx, json_number_value(json_array_get(x, i)), json_number_value(json_array_get(y, i)));
}
