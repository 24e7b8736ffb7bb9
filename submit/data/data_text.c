/* A folder of texts, one file per class and one sample per line. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/file.h"
#include "submit/data/data_sets.h"
#include "submit/data/data_text.h"

enum { FILES_MAX = 1024 };

static const struct json_field fields[] = {
    {"length", JSON_FIELD_INT, JSON_AT(struct text_form, length), .min = 1, .max = 1 << 20},
    {"long", JSON_FIELD_CHOICE, JSON_AT(struct text_form, longer), .choices = TEXT_LONG_CHOICES},
    {"vocab", JSON_FIELD_INT, JSON_AT(struct text_form, vocab), .min = 3, .max = LAYER_VALUES_MAX},
    {"test", JSON_FIELD_DOUBLE, JSON_AT(struct text_form, test), .min = 1e-6, .max = 0.999999},
    {"seed", JSON_FIELD_U64, JSON_AT(struct text_form, seed), .required = false},
    {0},
};

/* Files that macOS and Windows put into folders are none of the user's. */
static int is_own(const struct dirent *f)
{
    static const char *const others[] = {"Thumbs.db", "desktop.ini"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcasecmp(f->d_name, others[i]) == 0)
            return 0;
    return f->d_name[0] != '.';
}

static int read_classes(struct text_class *classes, int *n, struct dirent **names, int n_names,
                        const char *dir, struct err *e)
{
    char path[PATH_MAX];

    if (n_names > FILES_MAX)
        return err_set(e, ERR_CONFIG, "%s: %d files, at most %d classes", dir, n_names, FILES_MAX);
    for (*n = 0; *n < n_names; ++*n) {
        struct text_class *c = &classes[*n];
        uint8_t *bytes;

        c->name = names[*n]->d_name;
        if (file_join(path, sizeof path, dir, c->name, e) < 0)
            return e->code;
        if (data_is_folder(path)) {
            err_set(e, ERR_CONFIG, "%s is a folder, expected one file for each class", path);
            return err_hint(e,
                            "For a class of many files, write them into one, a line each: for f in %s/*; do "
                            "tr '\\n' ' ' <\"$f\"; echo; done >NEW/%s",
                            c->name, c->name);
        }
        if (data_read(&bytes, &c->len, path, e) < 0)
            return e->code;
        c->bytes = (char *)bytes;
    }
    return 0;
}

int text_open(struct dataset *d, const char *arg, const char *path, struct err *e)
{
    struct text_form form = {.length = 40, .vocab = 10000, .test = 0.1, .seed = 1};
    struct dirent **names = NULL;
    struct text_class *classes;
    int n_names, rc;
    int n = 0;

    if (data_options(&form, fields, NULL, arg, e) < 0)
        return e->code;
    n_names = scandir(path, &names, is_own, alphasort);
    if (n_names < 0) {
        err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
        return err_hint(e, "--data DIR names a folder with one file per class, a sample on each line.");
    }
    classes = calloc((size_t)n_names + 1, sizeof *classes);
    rc = !classes ? err_set(e, ERR_NOMEM, "no memory for %d files", n_names)
                  : read_classes(classes, &n, names, n_names, path, e);
    if (rc == 0 && text_parse(d, classes, n, &form, e) < 0)
        rc = err_at(e, "%s", path);
    for (int i = 0; i < n; i++)
        free(classes[i].bytes);
    free(classes);
    for (int i = 0; i < n_names; i++)
        free(names[i]);
    free(names);
    return rc;
}
