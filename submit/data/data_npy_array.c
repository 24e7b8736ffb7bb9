/* data_npy_array -- the header and the values of one NumPy array (data_formats.h). */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "submit/data/data_file.h"
#include "submit/data/data_formats.h"

static const struct {
    const char *name; /* without the order of bytes */
    size_t size;
} types[N_NPY_TYPES] = {
    [NPY_B1] = {"b1", 1}, [NPY_U1] = {"u1", 1}, [NPY_U2] = {"u2", 2}, [NPY_U4] = {"u4", 4},
    [NPY_U8] = {"u8", 8}, [NPY_I1] = {"i1", 1}, [NPY_I2] = {"i2", 2}, [NPY_I4] = {"i4", 4},
    [NPY_I8] = {"i8", 8}, [NPY_F2] = {"f2", 2}, [NPY_F4] = {"f4", 4}, [NPY_F8] = {"f8", 8},
};

/* Types that are no numbers, by their letter. */
static const struct {
    char letter;
    const char *what, *hint;
} others[] = {
    {'U', "texts", "numpy.unique(y, return_inverse=True)[1] numbers them."},
    {'S', "texts", "numpy.unique(y, return_inverse=True)[1] numbers them."},
    {'O', "Python objects", "x.astype(\"f4\") makes numbers of them where all are numbers of one shape."},
    {'c', "complex numbers", "numpy.stack([x.real, x.imag], -1) makes two values of each."},
    {'M', "dates", "x.astype(\"i8\") makes numbers of them."},
    {'m', "times", "x.astype(\"i8\") makes numbers of them."},
};

/* The header is the text of a Python dictionary:
 * {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } */
struct npy_text {
    const char *at, *end;
};

static void skip_spaces(struct npy_text *t)
{
    while (t->at < t->end && *t->at == ' ')
        t->at++;
}

static bool take_word(struct npy_text *t, const char *text)
{
    size_t n = strlen(text);

    skip_spaces(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, text, n) != 0)
        return false;
    t->at += n;
    return true;
}

static bool take_string(struct npy_text *t, char out[24])
{
    size_t n = 0;

    if (!take_word(t, "'"))
        return false;
    while (t->at < t->end && *t->at != '\'' && n < 23)
        out[n++] = *t->at++;
    out[n] = '\0';
    return take_word(t, "'");
}

static bool take_size(struct npy_text *t, size_t *out)
{
    const char *start;

    skip_spaces(t);
    start = t->at;
    for (*out = 0; t->at < t->end && *t->at >= '0' && *t->at <= '9' && t->at - start < 18; t->at++)
        *out = 10 * *out + (size_t)(*t->at - '0');
    return t->at > start;
}

/* "(3, 4)", "(3,)" */
static bool take_shape(struct npy_text *t, struct npy_array *a)
{
    if (!take_word(t, "("))
        return false;
    for (a->n_dims = 0; !take_word(t, ")"); a->n_dims++)
        if (a->n_dims == NPY_DIMS || !take_size(t, &a->shape[a->n_dims]) ||
            (!take_word(t, ",") && (a->n_dims == 0 || t->at == t->end || *t->at != ')')))
            return false;
    return true;
}

static bool take_dictionary(struct npy_text *t, char descr[24], bool *is_fortran, struct npy_array *a)
{
    bool has_descr = false, has_order = false, has_shape = false;

    if (!take_word(t, "{"))
        return false;
    while (!take_word(t, "}")) {
        char key[24];

        if (!take_string(t, key) || !take_word(t, ":"))
            return false;
        if (strcmp(key, "descr") == 0 && !has_descr && take_string(t, descr)) {
            has_descr = true;
        } else if (strcmp(key, "fortran_order") == 0 && !has_order) {
            *is_fortran = take_word(t, "True");
            has_order = *is_fortran || take_word(t, "False");
            if (!has_order)
                return false;
        } else if (strcmp(key, "shape") == 0 && !has_shape && take_shape(t, a)) {
            has_shape = true;
        } else {
            return false;
        }
        skip_spaces(t);
        if (!take_word(t, ",") && (t->at == t->end || *t->at != '}'))
            return false;
    }
    skip_spaces(t);
    return has_descr && has_order && has_shape && t->end - t->at == 1 && *t->at == '\n';
}

static int refuse_type(const char *descr, struct err *e)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (descr[0] && descr[1] == others[i].letter) {
            err_set(e, ERR_CONFIG, "its type is %s, %s, expected numbers", descr, others[i].what);
            return err_hint(e, "%s", others[i].hint);
        }
    err_set(e, ERR_CONFIG, "its type is %s, expected bool, integers of 1 to 8 bytes or floats of 2, 4 or 8",
            descr);
    return err_hint(e, "x.astype(\"f4\") converts it.");
}

static int check_type(struct npy_array *a, const char *descr, bool is_fortran, struct err *e)
{
    size_t i = 0;

    while (i < N_NPY_TYPES && (!descr[0] || strcmp(descr + 1, types[i].name) != 0))
        i++;
    if (i == N_NPY_TYPES || !strchr(types[i].size > 1 ? "<>" : "|<>", descr[0]))
        return refuse_type(descr, e);
    if (is_fortran && a->n_dims > 1)
        return err_set(e, ERR_CONFIG, "in Fortran order; numpy.ascontiguousarray() converts it to C order");
    if (a->n_dims == 0)
        return err_set(e, ERR_CONFIG, "a scalar, expected an array");
    a->type = (enum npy_type)i;
    a->is_big_endian = descr[0] == '>' && types[i].size > 1;
    return 0;
}

/* Everything but the data, which begins at byte *start. */
static int parse_head(struct npy_array *a, size_t *start, const uint8_t *bytes, size_t len, struct err *e)
{
    static const uint8_t magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    size_t at, header;
    char descr[24] = "";
    bool is_fortran = false;
    struct npy_text t;

    *a = (struct npy_array){0};
    if (len < 12 || memcmp(bytes, magic, sizeof magic) != 0)
        return data_refuse_kind(bytes, len, e) < 0 ? err_at(e, "not an .npy file")
                                                   : err_set(e, ERR_CONFIG, "not an .npy file");
    if ((bytes[6] != 1 && bytes[6] != 2) || bytes[7] != 0)
        return err_set(e, ERR_CONFIG, "version %d.%d of .npy, expected 1.0 or 2.0", bytes[6], bytes[7]);
    at = bytes[6] == 1 ? 10 : 12;
    header = bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] == 2)
        header |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (header > len - at)
        return err_set(e, ERR_CONFIG, "a header of %zu bytes in a file of %zu", header, len);
    t = (struct npy_text){(const char *)bytes + at, (const char *)bytes + at + header};
    if (!take_dictionary(&t, descr, &is_fortran, a))
        return err_set(
            e, ERR_CONFIG,
            "its header is not {'descr', 'fortran_order', 'shape'} of an array of numbers with at most %d "
            "dimensions",
            NPY_DIMS);
    if (check_type(a, descr, is_fortran, e) < 0)
        return e->code;
    *start = at + header;
    return 0;
}

/* The values of the shape, which fill at most `most` bytes. */
static int count_values(struct npy_array *a, size_t most, struct err *e)
{
    a->n = 1;
    if (a->shape[0] == 0)
        return err_set(e, ERR_CONFIG, "it has no samples");
    for (int i = 0; i < a->n_dims; i++) {
        if (most == DATA_BYTES_MAX && a->shape[i] > 0 && a->shape[i] > most / types[a->type].size / a->n) {
            err_set(e, ERR_CONFIG, "more than %zu bytes of data by its shape", most);
            return data_hint_large(e);
        }
        if (a->shape[i] == 0 || a->shape[i] > most / types[a->type].size / a->n)
            return err_set(e, ERR_CONFIG, "%zu bytes of data do not fit dimension %d of its shape, %zu", most,
                           i + 1, a->shape[i]);
        a->n *= a->shape[i];
    }
    return 0;
}

int npy_promise(uint64_t *whole, const uint8_t *bytes, size_t len, struct err *e)
{
    struct npy_array a;
    size_t start;

    if (parse_head(&a, &start, bytes, len, e) < 0 || count_values(&a, DATA_BYTES_MAX, e) < 0)
        return e->code;
    *whole = start + a.n * types[a.type].size;
    return 0;
}

int npy_parse(struct npy_array *a, const uint8_t *bytes, size_t len, struct err *e)
{
    size_t start, size;

    if (parse_head(a, &start, bytes, len, e) < 0 || count_values(a, len - start, e) < 0)
        return e->code;
    size = a->n * types[a->type].size;
    if (size != len - start)
        return err_set(e, ERR_CONFIG, "%zu bytes of data expected, %zu found", size, len - start);
    a->data = bytes + start;
    return 0;
}

bool npy_is_float(const struct npy_array *a)
{
    return a->type == NPY_F2 || a->type == NPY_F4 || a->type == NPY_F8;
}

/* The bytes of value i as an integer. psgd runs on little-endian machines only, as its own files require
 * (tensor_file.h). */
static uint64_t bits_of(const struct npy_array *a, size_t i)
{
    size_t size = types[a->type].size;
    uint64_t bits = 0;

    memcpy(&bits, a->data + i * size, size);
    return a->is_big_endian ? __builtin_bswap64(bits) >> (64 - 8 * size) : bits;
}

/* IEEE 754 binary16. */
static double half_value(uint64_t bits)
{
    int exponent = (int)(bits >> 10 & 31);
    double fraction = (double)(bits & 1023);
    double v = exponent == 31  ? (fraction > 0 ? (double)NAN : (double)INFINITY)
               : exponent == 0 ? ldexp(fraction, -24)
                               : ldexp(1024 + fraction, exponent - 25);

    return bits >> 15 ? -v : v;
}

double npy_value(const struct npy_array *a, size_t i)
{
    uint64_t bits = bits_of(a, i);
    uint32_t low = (uint32_t)bits;
    float f;
    double d;

    switch (a->type) {
    case NPY_F2:
        return half_value(bits);
    case NPY_F4:
        memcpy(&f, &low, sizeof f);
        return (double)f;
    case NPY_F8:
        memcpy(&d, &bits, sizeof d);
        return d;
    case NPY_U8:
        return (double)bits;
    default:
        return (double)npy_integer(a, i);
    }
}

int64_t npy_integer(const struct npy_array *a, size_t i)
{
    uint64_t bits = bits_of(a, i);
    int unused = 64 - 8 * (int)types[a->type].size;

    if (a->type == NPY_B1)
        return bits != 0;
    if (a->type >= NPY_I1 && a->type <= NPY_I8)
        return (int64_t)(bits << unused) >> unused; /* extends the sign */
    return bits <= INT64_MAX ? (int64_t)bits : INT64_MAX;
}
