#include "shared/records/tensor_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"

enum { PREFIX = 8, ALIGN = 8, HEADER_MAX = 16 << 20, HEADER_USUAL = 2 << 20 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file has the byte order of memory");

static const char meta_key[] = "__metadata__";

static const struct {
    const char *name;
    size_t size;
} types[N_TENSOR_TYPES] = {
    [TENSOR_F32] = {"F32", 4}, [TENSOR_U8] = {"U8", 1},   [TENSOR_I32] = {"I32", 4},
    [TENSOR_I64] = {"I64", 8}, [TENSOR_F16] = {"F16", 2}, [TENSOR_BF16] = {"BF16", 2},
    [TENSOR_F64] = {"F64", 8}, [TENSOR_U16] = {"U16", 2},
};

size_t tensor_type_size(enum tensor_type type)
{
    return types[type].size;
}

const char *tensor_type_name(enum tensor_type type)
{
    return types[type].name;
}

size_t tensor_count(const struct tensor_view *t)
{
    size_t n = 1;

    for (int i = 0; i < t->n_dims; i++)
        n *= t->shape[i];
    return n;
}

size_t tensor_bytes(const struct tensor_view *t)
{
    return tensor_count(t) * types[t->type].size;
}

const char *tensor_shape_text(char out[TENSOR_SHAPE_TEXT], const struct tensor_view *t)
{
    int n = snprintf(out, TENSOR_SHAPE_TEXT, "(");

    for (int i = 0; i < t->n_dims; i++) /* at most 8 dimensions of 20 digits and two characters */
        n += snprintf(out + n, (size_t)(TENSOR_SHAPE_TEXT - n), "%s%zu", i ? ", " : "", t->shape[i]);
    snprintf(out + n, (size_t)(TENSOR_SHAPE_TEXT - n), ")");
    return out;
}

/* IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction. */
static double half(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023;
    double v = exponent == 0    ? ldexp(fraction, -24)
               : exponent == 31 ? (fraction > 0 ? (double)NAN : (double)INFINITY)
                                : ldexp(1024 + fraction, exponent - 25);

    return bits >> 15 ? -v : v;
}

/* The upper half of a float. */
static double brain_half(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float v;

    memcpy(&v, &wide, sizeof v);
    return (double)v;
}

double tensor_value(const struct tensor_view *t, size_t i)
{
    switch (t->type) {
    case TENSOR_F32:
        return (double)((const float *)t->data)[i];
    case TENSOR_U8:
        return ((const uint8_t *)t->data)[i];
    case TENSOR_I32:
        return ((const int32_t *)t->data)[i];
    case TENSOR_I64:
        return (double)((const int64_t *)t->data)[i];
    case TENSOR_F16:
        return half(((const uint16_t *)t->data)[i]);
    case TENSOR_BF16:
        return brain_half(((const uint16_t *)t->data)[i]);
    case TENSOR_U16:
        return ((const uint16_t *)t->data)[i];
    case TENSOR_F64:
    case N_TENSOR_TYPES:
        break;
    }
    return ((const double *)t->data)[i];
}

static int parse_dtype(struct tensor_view *t, const json_t *v, struct err *e)
{
    const char *s = json_string_value(v);

    for (int i = 0; s && i < N_TENSOR_TYPES; i++)
        if (strcmp(types[i].name, s) == 0) {
            t->type = (enum tensor_type)i;
            return 0;
        }
    return err_set(e, ERR_CONFIG, "/%s/dtype: expected F32, U8, U16, I32, I64, F16, BF16 or F64, found %s",
                   t->name, s ? s : "no text");
}

/* Sets *out to an integer that fits size_t. */
static int get_size(size_t *out, const json_t *v)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return -1;
    *out = (size_t)json_integer_value(v);
    return 0;
}

/* Also checks that the number of bytes does not overflow. */
static int parse_shape(struct tensor_view *t, const json_t *v, struct err *e)
{
    size_t bytes = types[t->type].size;

    if (!json_is_array(v) || json_array_size(v) > TENSOR_DIMS)
        return err_set(e, ERR_CONFIG, "/%s/shape: not an array of at most %d dimensions", t->name,
                       TENSOR_DIMS);
    t->n_dims = (int)json_array_size(v);
    for (int i = 0; i < t->n_dims; i++) {
        if (get_size(&t->shape[i], json_array_get(v, (size_t)i)) < 0)
            return err_set(e, ERR_CONFIG, "/%s/shape/%d: not a size", t->name, i);
        if (__builtin_mul_overflow(bytes, t->shape[i], &bytes))
            return err_set(e, ERR_CONFIG, "/%s/shape: more bytes than memory can have", t->name);
    }
    return 0;
}

/* Bytes in memory: a header, then the tensors. */
struct tensor_source {
    const unsigned char *bytes;
    size_t data_at, data_len;
};

static int parse_offsets(struct tensor_view *t, const json_t *v, const struct tensor_source *src,
                         struct err *e)
{
    size_t begin, end;

    if (json_array_size(v) != 2 || get_size(&begin, json_array_get(v, 0)) < 0 ||
        get_size(&end, json_array_get(v, 1)) < 0)
        return err_set(e, ERR_CONFIG, "/%s/data_offsets: not two offsets", t->name);
    if (begin > end || end > src->data_len)
        return err_set(e, ERR_CONFIG,
                       "/%s/data_offsets: %zu to %zu are not within the file's %zu bytes of data", t->name,
                       begin, end, src->data_len);
    if (end - begin != tensor_bytes(t))
        return err_set(e, ERR_CONFIG, "/%s: its shape needs %zu bytes, its offsets span %zu", t->name,
                       tensor_bytes(t), end - begin);
    if ((src->data_at + begin) % types[t->type].size != 0)
        return err_set(e, ERR_CONFIG, "/%s: begins at byte %zu of the file, which is not aligned for %s",
                       t->name, src->data_at + begin, types[t->type].name);
    t->data = src->bytes + src->data_at + begin;
    return 0;
}

static int parse_tensor(struct tensor_view *t, const char *name, const json_t *entry,
                        const struct tensor_source *src, struct err *e)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets", NULL};
    char at[TENSOR_NAME + 1];

    if (!name[0] || strlen(name) >= sizeof t->name)
        return err_set(e, ERR_CONFIG, "a tensor's name has %zu bytes, expected 1 to %zu", strlen(name),
                       sizeof t->name - 1);
    if (!utf8_is_clean(name)) /* names are printed on terminals */
        return err_set(e, ERR_CONFIG, "a tensor's name has control characters");
    memcpy(t->name, name, strlen(name) + 1);
    at[0] = '/';
    memcpy(at + 1, name, strlen(name) + 1);
    if (json_only_keys(entry, keys, at, e) < 0 || parse_dtype(t, json_object_get(entry, "dtype"), e) < 0 ||
        parse_shape(t, json_object_get(entry, "shape"), e) < 0)
        return e->code;
    return parse_offsets(t, json_object_get(entry, "data_offsets"), src, e);
}

static int check_meta(const json_t *meta, struct err *e)
{
    const char *key;
    json_t *v;

    if (meta && !json_is_object(meta))
        return err_set(e, ERR_CONFIG, "/%s: not an object", meta_key);
    json_object_foreach((json_t *)(uintptr_t)meta, key, v)
    {
        if (!utf8_is_clean(key))
            return err_set(e, ERR_CONFIG, "/%s: a key has control characters", meta_key);
        if (!json_is_string(v))
            return err_set(e, ERR_CONFIG, "/%s/%s: not a string", meta_key, key);
    }
    return 0;
}

/* By offset; at the same offset empty tensors come before others, in the order of their names. */
static int by_place(const void *a, const void *b)
{
    const struct tensor_view *s = a;
    const struct tensor_view *t = b;

    if (s->data != t->data)
        return (uintptr_t)s->data < (uintptr_t)t->data ? -1 : 1;
    if (tensor_bytes(s) != tensor_bytes(t))
        return tensor_bytes(s) < tensor_bytes(t) ? -1 : 1;
    return strcmp(s->name, t->name);
}

/* Tensors, sorted by offset, must follow each other from the first byte of the data to the last. */
static int check_places(const struct tensor_file *f, const struct tensor_source *src, struct err *e)
{
    size_t at = 0;

    for (size_t i = 0; i < f->n; i++) {
        const struct tensor_view *t = &f->tensors[i];
        size_t begin = (size_t)((const unsigned char *)t->data - src->bytes) - src->data_at;

        if (begin != at)
            return err_set(e, ERR_CONFIG,
                           "/%s/data_offsets: begins at %zu, but the tensor before it ends at %zu: %s",
                           t->name, begin, at, begin > at ? "a hole" : "an overlap");
        at += tensor_bytes(t);
    }
    if (at != src->data_len)
        return err_set(e, ERR_CONFIG, "%zu bytes of data expected, %zu found", at, src->data_len);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct tensor_view *const *s = a;
    const struct tensor_view *const *t = b;

    return strcmp((*s)->name, (*t)->name);
}

static void sort_names(struct tensor_file *f)
{
    for (size_t i = 0; i < f->n; i++)
        f->by_name[i] = &f->tensors[i];
    qsort(f->by_name, f->n, sizeof *f->by_name, by_name);
}

static int parse_tensors(struct tensor_file *f, const struct tensor_source *src, struct err *e)
{
    size_t n = json_object_size(f->header);
    const char *key;
    json_t *v;

    if (n > TENSOR_FILE_MAX_TENSORS + 1)
        return err_set(e, ERR_CONFIG, "%zu tensors, at most %d", n, TENSOR_FILE_MAX_TENSORS);
    f->tensors = calloc(n + 1, sizeof *f->tensors);
    f->by_name = calloc(n + 1, sizeof *f->by_name);
    if (!f->tensors || !f->by_name)
        return err_set(e, ERR_NOMEM, "no memory for %zu tensors", n);
    json_object_foreach((json_t *)f->header, key, v)
    {
        if (strcmp(key, meta_key) == 0)
            continue;
        if (parse_tensor(&f->tensors[f->n], key, v, src, e) < 0)
            return e->code;
        f->n++;
    }
    qsort(f->tensors, f->n, sizeof *f->tensors, by_place);
    sort_names(f);
    return check_places(f, src, e);
}

static uint64_t le64(const unsigned char *p)
{
    uint64_t v = 0;

    for (int i = 0; i < PREFIX; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* Splits off the header and finds the data. */
static int parse_header(json_t **out, struct tensor_source *src, const unsigned char *p, size_t len,
                        struct err *e)
{
    uint64_t n = len >= PREFIX ? le64(p) : 0;

    if (len < PREFIX)
        return err_set(e, ERR_CONFIG, "not a safetensors file: at least %d bytes expected, %zu found", PREFIX,
                       len);
    if (n > HEADER_MAX)
        return err_set(e, ERR_CONFIG,
                       "not a safetensors file: its first %d bytes are not the length of a header", PREFIX);
    if (n > len - PREFIX)
        return err_set(e, ERR_CONFIG,
                       "not a safetensors file, or truncated: a header of %llu bytes expected, %zu found",
                       (unsigned long long)n, len - PREFIX);
    if (n == 0 || p[PREFIX] != '{')
        return err_set(e, ERR_CONFIG, "not a safetensors file: its header does not begin with '{'");
    *src = (struct tensor_source){
        .bytes = p, .data_at = PREFIX + (size_t)n, .data_len = len - PREFIX - (size_t)n};
    return json_parse(out, (const char *)p + PREFIX, (size_t)n, "header", e);
}

int tensor_file_parse(struct tensor_file *f, const void *bytes, size_t len, const char *what, struct err *e)
{
    struct tensor_file t = {0};
    json_t *header;
    struct tensor_source src = {0};

    assert((uintptr_t)bytes % ALIGN == 0);
    if (parse_header(&header, &src, bytes, len, e) < 0)
        return err_at(e, "%s", what);
    t.header = header;
    if (check_meta(json_object_get(header, meta_key), e) < 0 || parse_tensors(&t, &src, e) < 0) {
        tensor_file_close(&t);
        return err_at(e, "%s", what);
    }
    *f = t;
    return 0;
}

int tensor_file_open(struct tensor_file *f, const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    size_t len;
    void *map;

    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(e, ERR_IO, "%s: not a regular file", path);
    }
    len = (size_t)st.st_size;
    /* mmap refuses a length of 0; the parser refuses a file that is too short. */
    map = mmap(NULL, len ? len : 1, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return err_call(e, ERR_IO, CALL_MAP, "%s", path);
    if (tensor_file_parse(f, map, len, path, e) < 0) {
        munmap(map, len ? len : 1);
        return e->code;
    }
    f->map = map;
    f->map_len = len;
    return 0;
}

/* Reads the header's length, then the header. Bytes that the file does not have are 0, which the parser
 * refuses. */
static bool read_header(unsigned char *to, int fd, size_t len)
{
    uint64_t n;

    if (pread(fd, to, len < PREFIX ? len : PREFIX, 0) < 0)
        return false;
    n = le64(to);
    if (len < PREFIX || n > HEADER_MAX || n > len - PREFIX)
        return true;
    return pread(fd, to + PREFIX, (size_t)n, PREFIX) >= 0;
}

int tensor_file_read_header(struct tensor_file *f, int fd, size_t len, const char *what, struct err *e)
{
    /* Addresses for the whole file; memory only for the header, which is written below. */
    void *map = mmap(NULL, len ? len : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1, 0);

    if (map == MAP_FAILED)
        return err_call(e, ERR_NOMEM, CALL_MAP, "%s", what);
    if (!read_header(map, fd, len)) {
        err_errno(e, ERR_IO, "%s", what);
        munmap(map, len ? len : 1);
        return e->code;
    }
    if (tensor_file_parse(f, map, len, what, e) < 0) {
        munmap(map, len ? len : 1);
        return e->code;
    }
    f->map = map;
    f->map_len = len;
    return 0;
}

void tensor_file_close(struct tensor_file *f)
{
    json_decref(f->header);
    free(f->tensors);
    free(f->by_name);
    if (f->map)
        munmap(f->map, f->map_len);
    *f = (struct tensor_file){0};
}

void tensor_file_rename(struct tensor_file *f, bool (*rename)(struct tensor_view *t, void *owner),
                        void *owner)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++)
        if (rename(&f->tensors[i], owner))
            f->tensors[n++] = f->tensors[i];
    f->n = n;
    sort_names(f);
}

static int compare_name(const void *name, const void *entry)
{
    const struct tensor_view *const *t = entry;

    return strcmp(name, (*t)->name);
}

const struct tensor_view *tensor_file_find(const struct tensor_file *f, const char *name)
{
    const struct tensor_view **found = f->n > 0
                                           ? bsearch(name, f->by_name, f->n, sizeof *f->by_name, compare_name)
                                           : NULL;

    return found ? *found : NULL;
}

const char *tensor_file_meta(const struct tensor_file *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->header, meta_key), key));
}

static json_t *describe_tensor(const struct tensor_view *t, size_t begin)
{
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", types[t->type].name, "shape",
                     json_sizes(t->shape, (size_t)t->n_dims), "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + tensor_bytes(t)));
}

static json_t *describe_meta(const struct tensor_meta *meta)
{
    json_t *o = json_object();

    for (; meta->key; meta++)
        json_object_set_new(o, meta->key, json_string(meta->value));
    return o;
}

static int check_tensor_name(const json_t *header, const char *name, struct err *e)
{
    if (!name[0] || strnlen(name, TENSOR_NAME) == TENSOR_NAME || json_object_get(header, name) ||
        strcmp(name, meta_key) == 0)
        return err_set(e, ERR_INTERNAL, "\"%.*s\" cannot be a tensor's name here", TENSOR_NAME, name);
    return 0;
}

/* What a file is written from. The order is that of the format's library, wider types first, so that each is
 * aligned without a hole; within a width it is the caller's. */
struct tensor_content {
    const struct tensor_view *t;
    const struct tensor_rows *rows; /* NULL: all rows follow each other */
    size_t n;
    struct iovec head; /* the bytes before the data; owned */
};

static int for_each_by_width(struct tensor_content *s,
                             int (*use)(void *arg, const struct tensor_content *s, size_t i, struct err *e),
                             void *arg, struct err *e)
{
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < s->n; i++)
            if (types[s->t[i].type].size == width && use(arg, s, i, e) < 0)
                return e->code;
    return 0;
}

struct header_end {
    json_t *header;
    size_t at; /* where the next tensor begins */
};

static int describe_one(void *arg, const struct tensor_content *s, size_t i, struct err *e)
{
    struct header_end *end = arg;
    const struct tensor_view *t = &s->t[i];

    if (check_tensor_name(end->header, t->name, e) < 0)
        return e->code;
    if (json_object_set_new(end->header, t->name, describe_tensor(t, end->at)) < 0)
        return err_set(e, ERR_NOMEM, "cannot describe tensor \"%s\"", t->name);
    end->at += tensor_bytes(t);
    return 0;
}

/* Parts that are collected for one call of the system. */
struct tensor_output {
    int fd;
    const char *path;
    struct iovec part[256]; /* a page that is read is mapped with fifteen others: these are 16 MiB */
    size_t n_parts, n_bytes;
};

static int put_parts(struct tensor_output *o, const struct tensor_rows *rows, struct err *e)
{
    size_t n = o->n_parts;

    o->n_parts = 0;
    if (file_write_vector(o->fd, o->part, n, o->path, e) < 0)
        return e->code;
    if (rows && rows->release)
        rows->release(rows->owner);
    o->n_bytes = 0;
    return 0;
}

static int add_part(struct tensor_output *o, const struct tensor_rows *rows, const char *at, size_t bytes,
                    struct err *e)
{
    struct iovec *last = o->n_parts > 0 ? &o->part[o->n_parts - 1] : NULL;

    o->n_bytes += bytes;
    if (last && (const char *)last->iov_base + last->iov_len == at)
        last->iov_len += bytes;
    else
        o->part[o->n_parts++] = (struct iovec){.iov_base = (void *)(uintptr_t)at, .iov_len = bytes};
    if (o->n_parts == sizeof o->part / sizeof *o->part || o->n_bytes >= TENSOR_ROWS_RELEASED)
        return put_parts(o, rows, e);
    return 0;
}

/* The data is written from where it is: a copy would double the memory of a large model. */
static int write_one(void *arg, const struct tensor_content *s, size_t i, struct err *e)
{
    struct tensor_output *o = arg;
    const struct tensor_view *t = &s->t[i];
    const struct tensor_rows *rows = s->rows ? &s->rows[i] : NULL;
    const uint32_t *number = rows ? rows->number : NULL;
    size_t all = tensor_bytes(t),
           bytes = number ? all / (t->shape[0] ? t->shape[0] : 1) : TENSOR_ROWS_RELEASED;

    for (size_t at = 0, row = 0; at < all; at += bytes, row++)
        if (add_part(o, rows, (const char *)t->data + (number ? number[row] * rows->stride : at),
                     all - at < bytes ? all - at : bytes, e) < 0)
            return e->code;
    return put_parts(o, rows, e);
}

static int write_source(void *arg, int fd, const char *path, struct err *e)
{
    struct tensor_content *s = arg;
    struct tensor_output o = {.fd = fd, .path = path};

    if (file_write_all(fd, s->head.iov_base, s->head.iov_len, path, e) < 0)
        return e->code;
    return for_each_by_width(s, write_one, &o, e);
}

int tensor_file_fits(const char *what, uint64_t data_bytes, const char *arch, const char *preprocessing,
                     struct err *e)
{
    size_t texts = strlen(arch) + (preprocessing ? strlen(preprocessing) : 0);
    uint64_t bytes = data_bytes + HEADER_USUAL + 2 * texts; /* escaped */
    struct rlimit most;

    if (getrlimit(RLIMIT_FSIZE, &most) < 0)
        return err_errno(e, ERR_IO, "getrlimit");
    if (most.rlim_cur != RLIM_INFINITY && bytes > most.rlim_cur)
        return err_set(e, ERR_CONFIG, "%s would have %llu bytes, and a file of this process at most %llu",
                       what, (unsigned long long)bytes, (unsigned long long)most.rlim_cur);
    return 0;
}

/* The bytes before the data; the caller frees them. */
static int make_head(struct iovec *head, const json_t *header, struct err *e)
{
    char *text = json_dump(header, JSON_COMPACT);
    size_t text_len = text ? strlen(text) : 0;
    size_t header_len = (text_len + ALIGN - 1) / ALIGN * ALIGN;
    unsigned char *p = text ? malloc(PREFIX + header_len) : NULL;

    if (!p) {
        free(text);
        return err_set(e, ERR_NOMEM, "no memory for a header of %zu bytes", header_len);
    }
    for (int i = 0; i < PREFIX; i++)
        p[i] = (unsigned char)((uint64_t)header_len >> (8 * i));
    memset(p + PREFIX, ' ', header_len);
    memcpy(p + PREFIX, text, text_len);
    free(text);
    *head = (struct iovec){.iov_base = p, .iov_len = PREFIX + header_len};
    return 0;
}

static int write_tensors(const char *path, const struct tensor_view *t, const struct tensor_rows *rows,
                         size_t n, const struct tensor_meta *meta, bool is_synced, struct err *e)
{
    struct header_end end = {.header = json_object()};
    struct tensor_content s = {.t = t, .rows = rows, .n = n};
    int rc;

    assert(n <= TENSOR_FILE_MAX_TENSORS);
    if (!end.header || (meta && json_object_set_new(end.header, meta_key, describe_meta(meta)) < 0))
        rc = err_set(e, ERR_NOMEM, "%s: no memory for the header of %zu tensors", path, n);
    else if (for_each_by_width(&s, describe_one, &end, e) < 0 || make_head(&s.head, end.header, e) < 0)
        rc = err_at(e, "%s", path);
    else
        rc = file_write_by(path, write_source, &s, 0644, is_synced, e);
    free(s.head.iov_base);
    json_decref(end.header);
    return rc;
}

int tensor_file_write(const char *path, const struct tensor_view *t, size_t n, const struct tensor_meta *meta,
                      struct err *e)
{
    return write_tensors(path, t, NULL, n, meta, true, e);
}

int tensor_file_write_unsynced(const char *path, const struct tensor_view *t, size_t n,
                               const struct tensor_meta *meta, struct err *e)
{
    return write_tensors(path, t, NULL, n, meta, false, e);
}

int tensor_file_write_rows(const char *path, const struct tensor_view *t, const struct tensor_rows *rows,
                           size_t n, const struct tensor_meta *meta, struct err *e)
{
    return write_tensors(path, t, rows, n, meta, false, e);
}
