/* Any text as a preprocessing record. One that is accepted is the same after it was written and read, and
 * samples of its own form, if they are few, get labels of its classes. */
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "submit/data/preprocessing.h"

enum { SMALL = 4096, N_CLASSES = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static int parse(struct preprocessing *p, const void *text, size_t len)
{
    struct err e;
    json_t *doc;
    int rc = json_parse(&doc, text, len, "record", &e);

    if (rc < 0)
        return rc;
    rc = preprocessing_parse(p, doc, &e);
    json_decref(doc);
    return rc;
}

static void check_copy(const struct preprocessing *p)
{
    json_t *doc = preprocessing_json(p);
    char *text = doc ? json_dump(doc, JSON_COMPACT) : NULL;
    struct preprocessing q;
    struct err e;

    if (!text || parse(&q, text, strlen(text)) < 0 || preprocessing_check_same(p, &q, "a", "b", &e) < 0)
        abort();
    preprocessing_clear(&q);
    free(text);
    json_decref(doc);
}

static void try_samples(const struct preprocessing *p)
{
    static float x[SMALL];
    int32_t y[N_CLASSES] = {0, 1, 2, 3};
    struct dataset d = {.n_test = N_CLASSES,
                        .shape = p->shape,
                        .x_type = p->type,
                        .vocab = p->vocab,
                        .test_x = x,
                        .test_y = p->n_classes ? y : NULL,
                        .n_classes = p->n_classes ? N_CLASSES : 0};
    struct transform_scale s;
    struct err e;

    if (preprocessing_scale(&s, p, &e) == 0)
        transform_scale_clear(&s);
    if (shape_count(&p->shape) <= SMALL && preprocessing_apply(p, &d, &e) == 0)
        for (int i = 0; p->n_classes && i < N_CLASSES; i++)
            if (y[i] < 0 || y[i] >= p->n_classes)
                abort();
    free(d.class_names);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct preprocessing p;

    if (parse(&p, bytes, len) < 0)
        return 0;
    check_copy(&p);
    try_samples(&p);
    preprocessing_clear(&p);
    return 0;
}
