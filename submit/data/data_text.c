/* A folder of texts, one file per class and one sample per line. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/base/file.h"
#include "submit/data/data_sets.h"
#include "submit/data/data_text.h"
#include "submit/data/preprocessing.h"

enum { FILES_MAX = 1024 };

static const struct json_field fields[] = {
    {"length", JSON_FIELD_INT, JSON_AT(struct text_form, length), .min = 1, .max = 1 << 20},
    {"long", JSON_FIELD_CHOICE, JSON_AT(struct text_form, longer), .choices = TEXT_LONG_CHOICES,
     .may_change = true},
    {"vocab", JSON_FIELD_INT, JSON_AT(struct text_form, vocab), .min = 3, .max = LAYER_VALUES_MAX},
    {"test", JSON_FIELD_DOUBLE, JSON_AT(struct text_form, test), .min = 1e-6, .max = 0.999999,
     .may_change = true},
    {"seed", JSON_FIELD_U64, JSON_AT(struct text_form, seed), .may_change = true},
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

static int read_class(struct text_class *c, const char *path, struct err *e)
{
    uint8_t *bytes;

    if (data_read(&bytes, &c->len, path, e) < 0)
        return e->code;
    c->bytes = (char *)bytes;
    return 0;
}

/* A class is called as its file, without the .gz of a compressed one: what is compressed keeps its class. */
static int name_class(struct text_class *classes, int n, char *file, struct err *e)
{
    char *end = strrchr(file, '.');

    if (end && end > file && strcmp(end, ".gz") == 0)
        *end = '\0';
    for (int k = 0; k < n; k++)
        if (strcmp(classes[k].name, file) == 0)
            return err_set(e, ERR_CONFIG, "%s and %s.gz are one class, expected one file for each", file,
                           file);
    classes[n].name = file;
    return 0;
}

/* Shortens the names to those of the classes. */
static int read_classes(struct text_class *classes, int *n, struct dirent **names, int n_names,
                        const char *dir, struct err *e)
{
    char path[PATH_MAX];

    if (n_names > FILES_MAX)
        return err_set(e, ERR_CONFIG, "%s: %d files, at most %d classes", dir, n_names, FILES_MAX);
    for (*n = 0; *n < n_names; ++*n) {
        struct text_class *c = &classes[*n];

        char *name = names[*n]->d_name;

        if (file_join(path, sizeof path, dir, name, e) < 0)
            return e->code;
        if (data_is_folder(path)) {
            err_set(e, ERR_CONFIG, "%s is a folder, expected one file for each class", path);
            return err_hint(e,
                            "For a class of many files, write them into one, a line each: for f in %s/*; do "
                            "tr '\\n' ' ' <\"$f\"; echo; done >NEW/%s",
                            name, name);
        }
        if (read_class(c, path, e) < 0)
            return e->code;
        if (name_class(classes, *n, name, e) < 0) {
            free(c->bytes);
            return err_at(e, "%s", dir);
        }
    }
    return 0;
}

/* Texts to predict in one file have no labels. */
static int open_file(struct dataset *d, const char *path, struct text_form *form, struct err *e)
{
    struct text_class lines = {.name = ""};
    int rc;

    if (read_class(&lines, path, e) < 0)
        return e->code;
    form->is_unlabelled = true;
    rc = text_parse(d, &lines, 1, form, e) < 0 ? err_at(e, "%s", path) : 0;
    free(lines.bytes);
    return rc;
}

/* Files to predict are called as the model's classes, or none of them is: then they have no labels. */
static int find_labels(bool *is_unlabelled, const struct text_class *classes, int n,
                       const struct preprocessing *p, struct err *e)
{
    int n_known = 0, other = 0;

    for (int k = 0; k < n; k++)
        if (preprocessing_class(p, classes[k].name, strlen(classes[k].name)) >= 0)
            n_known++;
        else
            other = k;
    *is_unlabelled = n_known == 0;
    if (n_known == 0 || n_known == n)
        return 0;
    preprocessing_no_class(p, classes[other].name, strlen(classes[other].name), e);
    return err_hint(e,
                    "A file is called as its class; lines of unknown classes are predicted without labels if "
                    "no file of the folder is called as a class.");
}

static int open_folder(struct dataset *d, const char *path, struct text_form *form,
                       const struct data_use *use, struct err *e)
{
    struct dirent **names = NULL;
    struct text_class *classes;
    int n_names, rc;
    int n = 0;

    n_names = scandir(path, &names, is_own, alphasort);
    if (n_names < 0) {
        err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
        return err_hint(e, "--data DIR names a folder with one file per class, a sample on each line.");
    }
    classes = calloc((size_t)n_names + 1, sizeof *classes);
    rc = !classes ? err_set(e, ERR_NOMEM, "no memory for %d files", n_names)
                  : read_classes(classes, &n, names, n_names, path, e);
    if (rc == 0 && use->is_whole)
        rc = find_labels(&form->is_unlabelled, classes, n, use->known, e);
    if (rc == 0 && text_parse(d, classes, n, form, e) < 0)
        rc = err_at(e, "%s", path);
    if (rc == 0 && form->is_unlabelled)
        data_warn(&d->warnings, "no file of %s is called as a class of the model: its lines have no labels",
                  path);
    for (int i = 0; i < n; i++)
        free(classes[i].bytes);
    free(classes);
    for (int i = 0; i < n_names; i++)
        free(names[i]);
    free(names);
    return rc;
}

int text_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use, struct err *e)
{
    struct text_form form = {.length = 40, .vocab = 10000, .test = 0.1, .seed = 1};

    if (data_options_as(&form, fields, NULL, "text", arg, use, e) < 0)
        return e->code;
    if (use->known && !use->known->words.n)
        return err_set(e, ERR_CONFIG, "the model knows no words: it was trained on data set %s",
                       use->known->dataset);
    form.words = use->known ? &use->known->words : NULL;
    form.is_whole = use->is_whole;
    return use->is_whole && !data_is_folder(path) ? open_file(d, path, &form, e)
                                                  : open_folder(d, path, &form, use, e);
}
