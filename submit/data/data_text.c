/* Lines of text as rows of tokens (data_formats.h), and a folder of texts as a data set, one file per class
 * and one sample per line. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shared/base/file.h"
#include "submit/data/data_file.h"
#include "submit/data/data_formats.h"
#include "submit/data/data_sets.h"
#include "submit/data/preprocessing.h"

enum { PADDING, UNKNOWN, FIRST_WORD, FILES_MAX = 1024 };

/* The vocabulary: words, and their tokens. */

struct vocabulary_word {
    const char *at;
    size_t len;
    uint32_t count; /* in the training lines */
    int32_t token;
};

/* A hash table with open addressing; the room is a power of two, at most half full. */
struct vocabulary {
    struct vocabulary_word *slots;
    size_t room, n;
};

static bool is_space(char c)
{
    return (unsigned char)c <= ' ' || c == 127;
}

static bool is_letter(char c)
{
    return (unsigned char)c >= 128 || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Reads the next token at or after *at; false at the end of the line. */
static bool next_token(const char **at, const char *end, struct vocabulary_word *w)
{
    const char *p = *at;

    while (p < end && is_space(*p))
        p++;
    *w = (struct vocabulary_word){.at = p};
    if (p == end)
        return false;
    if (is_letter(*p))
        while (p < end && (is_letter(*p) || (*p == '\'' && p + 1 < end && is_letter(p[1]))))
            p++;
    else
        p++;
    w->len = (size_t)(p - w->at);
    *at = p;
    return true;
}

static int count_tokens_up_to(int most, const char *at, const char *end)
{
    struct vocabulary_word w;
    int n = 0;

    while (n < most && next_token(&at, end, &w))
        n++;
    return n;
}

static struct vocabulary_word *slot_of(const struct vocabulary *t, const struct vocabulary_word *w)
{
    for (size_t k = (size_t)names_hash(w->at, w->len);; k++) {
        struct vocabulary_word *s = &t->slots[k & (t->room - 1)];

        if (!s->at || (s->len == w->len && memcmp(s->at, w->at, w->len) == 0))
            return s;
    }
}

static int grow_vocabulary(struct vocabulary *t, struct err *e)
{
    struct vocabulary more = {.room = t->room ? 2 * t->room : 1024, .n = t->n};

    more.slots = calloc(more.room, sizeof *more.slots);
    if (!more.slots)
        return err_set(e, ERR_NOMEM, "no memory for %zu words", more.room);
    for (size_t i = 0; i < t->room; i++)
        if (t->slots[i].at)
            *slot_of(&more, &t->slots[i]) = t->slots[i];
    free(t->slots);
    *t = more;
    return 0;
}

static int count_token(struct vocabulary *t, const struct vocabulary_word *w, struct err *e)
{
    struct vocabulary_word *s;

    if (2 * t->n >= t->room && grow_vocabulary(t, e) < 0)
        return e->code;
    s = slot_of(t, w);
    if (!s->at) {
        *s = *w;
        t->n++;
    }
    s->count++;
    return 0;
}

static int by_frequency(const void *a, const void *b)
{
    const struct vocabulary_word *x = *(struct vocabulary_word *const *)a;
    const struct vocabulary_word *y = *(struct vocabulary_word *const *)b;
    int c;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    c = memcmp(x->at, y->at, x->len < y->len ? x->len : y->len);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

/* The n words, one after another, each with its zero byte; NULL: no memory. */
static char *words_of(struct vocabulary_word *const *order, size_t n)
{
    size_t len = 0;
    char *words, *to;

    for (size_t i = 0; i < n; i++)
        len += order[i]->len + 1;
    words = to = calloc(1, len + !len);
    for (size_t i = 0; words && i < n; i++) {
        memcpy(to, order[i]->at, order[i]->len);
        to += order[i]->len + 1;
    }
    return words;
}

/* Numbers the most frequent words; *vocab becomes the size in use, and *words their texts in that order. */
static int number_tokens(struct vocabulary *t, int *vocab, char **words, struct err *e)
{
    struct vocabulary_word **order = malloc((t->n + 1) * sizeof(struct vocabulary_word *));
    size_t n = 0;

    if (!order)
        return err_set(e, ERR_NOMEM, "no memory for %zu words", t->n);
    for (size_t i = 0; i < t->room; i++)
        if (t->slots[i].at)
            order[n++] = &t->slots[i];
    qsort(order, n, sizeof(struct vocabulary_word *), by_frequency);
    for (size_t i = 0; i < n; i++)
        order[i]->token = i < (size_t)(*vocab - FIRST_WORD) ? (int32_t)i + FIRST_WORD : UNKNOWN;
    if (n < (size_t)(*vocab - FIRST_WORD))
        *vocab = (int)n + FIRST_WORD;
    *words = words_of(order, (size_t)(*vocab - FIRST_WORD));
    free(order);
    return *words ? 0 : err_set(e, ERR_NOMEM, "no memory for %d words", *vocab);
}

/* The lines of all classes. */

struct line {
    const char *at, *end;
    int32_t label;
};

/* Only ASCII is converted: the encoding of other bytes is unknown. */
static void lower(char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (s[i] >= 'A' && s[i] <= 'Z')
            s[i] = (char)(s[i] - 'A' + 'a');
}

/* A line ends with LF, CR LF or CR. memchr() for one of the two, which may be absent, would read the
 * whole rest for every line. */
static const char *line_end(const char *p, const char *end)
{
    while (p < end && *p != '\n' && *p != '\r')
        p++;
    return p;
}

/* `stop`: the end of a line. */
static const char *line_after(const char *stop, const char *end)
{
    bool is_crlf = end - stop >= 2 && stop[0] == '\r' && stop[1] == '\n';

    return stop == end ? end : stop + 1 + is_crlf;
}

static bool drops(const struct text_form *form)
{
    return form->longer == TEXT_DROP && !form->is_whole;
}

/* Finds the lines of all classes that are samples; the caller frees. */
static int find_lines(struct line **out, size_t *n_out, struct text_class *classes, int n_classes,
                      const struct text_form *form, struct err *e)
{
    struct line *lines = NULL;
    size_t n = 0;
    size_t room = 0;

    for (int k = 0; k < n_classes; k++) {
        const char *end = classes[k].bytes + classes[k].len;
        const char *p = classes[k].bytes;

        lower(classes[k].bytes, classes[k].len);
        while (p < end) {
            const char *stop = line_end(p, end);
            int n_tokens;

            p += data_mark(p, (size_t)(stop - p)); /* also where files were joined */
            if (n == room) {
                struct line *more = realloc(lines, (room = room ? 2 * room : 1024) * sizeof *lines);

                if (!more) {
                    free(lines);
                    return err_set(e, ERR_NOMEM, "no memory for %zu lines", room);
                }
                lines = more;
            }
            n_tokens = count_tokens_up_to(drops(form) ? form->length + 1 : 1, p, stop);
            if ((n_tokens > 0 && n_tokens <= form->length) || form->is_unlabelled)
                lines[n++] = (struct line){p, stop, k};
            p = line_after(stop, end);
        }
    }
    *out = lines;
    *n_out = n;
    return 0;
}

/* The parser: text_parse(). */

static int make_vocabulary(struct vocabulary *t, int *vocab, char **words, const struct line *lines, size_t n,
                           const bool *is_test, struct err *e)
{
    if (grow_vocabulary(t, e) < 0)
        return e->code;
    for (size_t i = 0; i < n; i++) {
        const char *at = lines[i].at;
        struct vocabulary_word w;

        while (!is_test[i] && next_token(&at, lines[i].end, &w))
            if (count_token(t, &w, e) < 0)
                return e->code;
    }
    return number_tokens(t, vocab, words, e);
}

/* The record's words, which the vocabulary points to. */
static int take_words(struct vocabulary *t, const struct names *words, struct err *e)
{
    if (grow_vocabulary(t, e) < 0)
        return e->code;
    for (size_t i = 0; i < words->n; i++) {
        const struct vocabulary_word w = {.at = words->at[i], .len = strlen(words->at[i])};

        if (count_token(t, &w, e) < 0)
            return e->code;
        slot_of(t, &w)->token = (int32_t)i + FIRST_WORD;
    }
    return 0;
}

static void encode(int32_t *x, const struct line *l, int length, const struct vocabulary *t)
{
    const char *at = l->at;
    struct vocabulary_word w;
    int n = 0;

    while (n < length && next_token(&at, l->end, &w)) {
        const struct vocabulary_word *s = slot_of(t, &w);

        x[n++] = s->at ? s->token : UNKNOWN;
    }
    if (n == 0)
        x[n++] = UNKNOWN;
    while (n < length)
        x[n++] = PADDING;
}

static int fill_dataset(struct dataset *d, const struct line *lines, size_t n, const bool *is_test,
                        const struct vocabulary *t, struct err *e)
{
    size_t length = (size_t)d->shape.dim[0];
    int32_t *train, *test;
    int32_t *train_y, *test_y;

    d->train_x = train = malloc(d->n_train * length * sizeof *train);
    d->test_x = test = malloc(d->n_test * length * sizeof *test);
    d->train_y = train_y = malloc(d->n_train * sizeof *train_y);
    d->test_y = test_y = malloc(d->n_test * sizeof *test_y);
    if (!train || !test || !train_y || !test_y)
        return err_set(e, ERR_NOMEM, "no memory for %zu lines of %zu tokens", n, length);
    for (size_t i = 0; i < n; i++) {
        int32_t **x = is_test[i] ? &test : &train;
        int32_t **y = is_test[i] ? &test_y : &train_y;

        encode(*x, &lines[i], (int)length, t);
        *x += length;
        *(*y)++ = lines[i].label;
    }
    return 0;
}

/* A class without samples is refused: an accuracy would not show that the model has never seen it. */
static int check_classes(const struct line *lines, size_t n, const struct text_class *classes, int n_classes,
                         const struct text_form *form, struct err *e)
{
    for (int k = 0; k < n_classes; k++) {
        size_t i = 0;

        while (i < n && lines[i].label != k)
            i++;
        if (i == n)
            return form->longer == TEXT_DROP
                       ? err_set(e, ERR_CONFIG, "class \"%s\" has no lines of at most %d token%s",
                                 classes[k].name, form->length, form->length == 1 ? "" : "s")
                       : err_set(e, ERR_CONFIG, "class \"%s\" has no lines", classes[k].name);
    }
    return 0;
}

/* "neg\0pos\0" */
static char *names_of(const struct text_class *classes, int n)
{
    size_t len = 0;
    char *names, *to;

    for (int k = 0; k < n; k++)
        len += strlen(classes[k].name) + 1;
    names = to = calloc(1, len);
    for (int k = 0; names && k < n; k++)
        to = stpcpy(to, classes[k].name) + 1;
    return names;
}

/* Which lines are in the test half, and their number. */
static int choose_test(bool *is_test, size_t *n_test, size_t n, const struct text_form *form, struct err *e)
{
    if (!form->is_whole)
        return dataset_choose_test(is_test, n_test, n, form->test, form->seed, e);
    for (size_t i = 0; i < n; i++)
        is_test[i] = true;
    *n_test = n;
    return n ? 0 : err_set(e, ERR_CONFIG, "no line with a word");
}

static void drop_labels(struct dataset *d)
{
    free(d->test_y);
    free(d->class_names);
    d->test_y = NULL;
    d->class_names = NULL;
    d->n_classes = 0;
}

int text_parse(struct dataset *d, struct text_class *classes, int n_classes, const struct text_form *form,
               struct err *e)
{
    struct vocabulary vocabulary = {0};
    struct line *lines = NULL;
    bool *is_test = NULL;
    size_t n = 0;
    int rc;

    *d = (struct dataset){.shape = {.n_dims = 1, .dim = {form->length}},
                          .x_type = TENSOR_I32,
                          .n_classes = n_classes,
                          .vocab = form->words ? (int)form->words->n + FIRST_WORD : form->vocab};
    if (n_classes < (form->words ? 1 : 2))
        return err_set(e, ERR_CONFIG, "%d class%s, expected a file for each of two or more", n_classes,
                       n_classes == 1 ? "" : "es");
    for (int k = 0; k < n_classes; k++)
        if (data_check_text(classes[k].bytes, classes[k].len, e) < 0)
            return classes[k].name[0] ? err_at(e, "%s", classes[k].name) : e->code;
    rc = find_lines(&lines, &n, classes, n_classes, form, e);
    if (rc == 0 && !form->words)
        rc = check_classes(lines, n, classes, n_classes, form, e);
    d->class_names = names_of(classes, n_classes);
    is_test = calloc(n + 1, sizeof *is_test);
    if (rc == 0 && (!is_test || !d->class_names))
        rc = err_set(e, ERR_NOMEM, "no memory for %zu lines", n);
    if (rc == 0)
        rc = choose_test(is_test, &d->n_test, n, form, e);
    if (rc == 0) {
        d->n_train = n - d->n_test;
        rc = form->words ? take_words(&vocabulary, form->words, e)
                         : make_vocabulary(&vocabulary, &d->vocab, &d->words, lines, n, is_test, e);
    }
    if (rc == 0)
        rc = fill_dataset(d, lines, n, is_test, &vocabulary, e);
    if (rc == 0 && form->is_unlabelled)
        drop_labels(d);
    free(vocabulary.slots);
    free(lines);
    free(is_test);
    if (rc < 0)
        dataset_clear(d);
    return rc;
}

/* Data set `text`: a folder with a file for each class. */

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

/* For scandir(): 0 for .DS_Store, Thumbs.db and other files that macOS and Windows put into folders. */
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

/* A class has the name of its file without .gz, so that compressing a file does not rename its class. */
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

/* Reads all files, and shortens their names to those of the classes. */
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

/* The lines of a single file, which are to be predicted, have no labels. */
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

/* Either all files to predict have the names of classes of the model, or none has: their lines then have no
 * labels. */
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
    return err_hint(
        e, "A file has the name of its class. Lines without labels are predicted from a folder in which no "
           "file has the name of a class.");
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
        dataset_warn(&d->warnings,
                     "no file of %s has the name of a class of the model: its lines have no labels", path);
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
