/* Any bytes as the file of a tokenized text, and as a text: what is read has tokens of its vocabulary, and
 * the tokens of a text are its bytes again. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "submit/data/token_file.h"
#include "submit/data/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_half(const struct dataset *d, const void *half, size_t n)
{
    const uint16_t *wide = half;

    for (size_t i = 0; d->x_type == TENSOR_U16 && i < n; i++)
        if (wide[i] >= d->vocab)
            abort();
}

static void try_file(const uint8_t *bytes, size_t len)
{
    const struct data_use use = {.window = 2};
    char path[FILE_FD_PATH];
    struct dataset d = {0};
    struct err e;
    int fd = file_make_in_memory(bytes, len, &e);

    if (fd < 0)
        abort();
    file_fd_path(path, fd);
    if (token_file_open(&d, path, &use, &e) == 0) {
        check_half(&d, d.train_x, d.stream.n_train);
        check_half(&d, d.test_x, d.stream.n_test);
        if (d.n_train == 0 || d.n_test == 0)
            abort();
    }
    dataset_clear(&d);
    close(fd);
}

static void learn_words(struct tokenizer *t, const uint8_t *text, size_t len)
{
    struct word_counts c = {0};
    struct token_merge *merges;
    struct err e;
    size_t n;

    for (size_t at = 0; at < len; at += n) {
        n = tokenizer_word(text + at, len - at);
        if (n == 0 || n > TOKENIZER_WORD || n > len - at || word_counts_add(&c, text + at, n, &e) < 0)
            abort();
    }
    if (tokenizer_learn(&merges, &n, &c, 300, &e) < 0 || tokenizer_init(t, merges, n, &e) < 0)
        abort();
    free(merges);
    word_counts_clear(&c);
}

static void try_text(const uint8_t *text, size_t len)
{
    struct tokenizer t;

    learn_words(&t, text, len);
    for (size_t at = 0, n; at < len; at += n) {
        uint16_t tokens[TOKENIZER_WORD];
        size_t k, from = at;

        n = tokenizer_word(text + at, len - at);
        k = tokenizer_encode(&t, tokens, text + at, n);
        for (size_t i = 0; i < k; i++) {
            size_t n_bytes;
            const char *of = tokenizer_decode(&t, tokens[i], &n_bytes);

            if (!of || n_bytes > at + n - from || memcmp(text + from, of, n_bytes) != 0)
                abort();
            from += n_bytes;
        }
        if (from != at + n)
            abort();
    }
    tokenizer_clear(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    try_file(bytes, len);
    try_text(bytes, len);
    return 0;
}
