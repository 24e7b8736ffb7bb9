/* Any bytes, split at the first zero byte, as the texts of two classes; also with the words of a model. */
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static char *copy(const uint8_t *bytes, size_t len)
{
    char *text = malloc(len + !len);

    if (!text)
        abort();
    memcpy(text, bytes, len);
    return text;
}

/* Tokens are in range, and padding is only at the end. */
static void check(const int32_t *x, size_t n, size_t length, int vocab)
{
    for (size_t i = 0; i < n * length; i++) {
        if (x[i] < 0 || x[i] >= vocab)
            abort();
        if (i % length == 0 ? x[i] == 0 : x[i] != 0 && x[i - 1] == 0)
            abort();
    }
}

/* Every line is a sample, its words are "a" and "b". */
static void try_known(const uint8_t *bytes, size_t len)
{
    struct text_class lines = {"lines", copy(bytes, len), len};
    struct names words;
    struct dataset d;
    struct err e;

    if (names_copy(&words, "a\0b", 2, &e) < 0)
        abort();
    for (int i = 0; i < 2; i++) {
        const struct text_form form = {
            .length = 3, .longer = TEXT_DROP, .words = &words, .is_whole = true, .is_unlabelled = i};

        if (text_parse(&d, &lines, 1, &form, &e) < 0)
            continue;
        check(d.test_x, d.n_test, 3, 4);
        dataset_clear(&d);
    }
    free(lines.bytes);
    names_clear(&words);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const struct text_form forms[] = {
        {.length = 3, .vocab = 5, .test = 0.3, .seed = 1},
        {.length = 3, .longer = TEXT_DROP, .vocab = 5, .test = 0.3, .seed = 1},
        {.length = 40, .vocab = 10000, .test = 0.1, .seed = 1}};
    const uint8_t *zero = memchr(bytes, 0, len);
    size_t first = zero ? (size_t)(zero - bytes) : len / 2;

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct text_class classes[2] = {{"a", copy(bytes, first), first},
                                        {"b", copy(bytes + first, len - first), len - first}};
        struct dataset d;
        struct err e;

        if (text_parse(&d, classes, 2, &forms[i], &e) == 0) {
            check(d.train_x, d.n_train, (size_t)forms[i].length, d.vocab);
            check(d.test_x, d.n_test, (size_t)forms[i].length, d.vocab);
            dataset_clear(&d);
        }
        free(classes[0].bytes);
        free(classes[1].bytes);
    }
    try_known(bytes, len);
    return 0;
}
