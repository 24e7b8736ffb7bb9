#include "submit/data/data_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "shared/base/file.h"
#include "submit/data/data_map.h"
#include "submit/data/dataset.h"

enum { LOOKED_AT = 4096, TAR_AT = 257 };

/* A file that is read into `buf`, of which `len` of `size` bytes are filled. */
struct file_reading {
    gzFile file;
    uint8_t *buf;
    size_t size, len, max;
    bool is_promised; /* `max` is the length that the file's own header has */
};

static int more_than(const struct file_reading *r, struct err *e)
{
    if (r->is_promised)
        return err_set(e, ERR_CONFIG, "%zu bytes expected by its header, and more follow", r->max);
    err_set(e, ERR_CONFIG, "more than %zu bytes", r->max);
    return r->max == DATA_BYTES_MAX ? data_hint_large(e) : e->code;
}

int data_hint_large(struct err *e)
{
    return err_hint(
        e, "A file, or an array of an .npz, may be at most 1 GiB, unpacked, as a data set is held in "
           "memory. NumPy's float32 or uint8 (--dataset npz) take less room than text; else leave "
           "out rows or columns.");
}

/* Reads until the buffer is full, or the file ends: *is_end. */
static int fill_buffer(struct file_reading *r, bool *is_end, struct err *e)
{
    size_t room = r->size - r->len;
    int k = gzread(r->file, r->buf + r->len, room < INT_MAX ? (unsigned)room : INT_MAX);
    int code;

    if (k < 0)
        return err_set(e, ERR_CONFIG, "cannot be unpacked: %s", gzerror(r->file, &code));
    r->len += (size_t)k;
    if (r->len > r->max)
        return more_than(r, e);
    if (!gzdirect(r->file) && data_is_bomb(r->len, (uint64_t)gzoffset(r->file)))
        return data_refuse_bomb(r->len, (uint64_t)gzoffset(r->file), e);
    *is_end = k == 0 && room > 0;
    return 0;
}

/* Doubles the buffer, up to one byte more than the maximum, while there is more to read: sizes in the file
 * are not trusted. */
static int read_rest(struct file_reading *r, struct err *e)
{
    bool is_end = false;

    while (!is_end) {
        uint8_t *more;

        if (fill_buffer(r, &is_end, e) < 0)
            return e->code;
        if (r->len < r->size)
            continue;
        r->size = r->size <= r->max / 2 ? 2 * r->size : r->max + 1;
        more = realloc(r->buf, r->size);
        if (!more)
            return err_set(e, ERR_NOMEM, "no memory for %zu bytes", r->size);
        r->buf = more;
    }
    return 0;
}

/* Reads the beginning of the file, and limits the rest to the length that it promises and one byte. */
static int read_head(struct file_reading *r, data_promise promise, struct err *e)
{
    size_t size = r->size;
    bool is_end = false;
    uint64_t whole;

    r->size = DATA_HEAD;
    while (!is_end && r->len < r->size)
        if (fill_buffer(r, &is_end, e) < 0)
            return e->code;
    if (promise(&whole, r->buf, r->len, e) < 0)
        return e->code;
    if (whole > r->max) {
        err_set(e, ERR_CONFIG, "%llu bytes by its header, of at most %zu", (unsigned long long)whole, r->max);
        return data_hint_large(e);
    }
    r->max = (size_t)whole;
    r->is_promised = true;
    r->size = size <= r->max ? size : r->max + 1;
    return r->len > r->max ? more_than(r, e) : 0;
}

static int read_file(uint8_t **out, size_t *len, size_t max, data_promise promise, const char *path,
                     struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct file_reading r = {.max = max};
    struct stat st;
    int rc = 0;

    *len = 0;
    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(r.file = gzdopen(fd, "rb"))) {
        close(fd);
        return err_set(e, ERR_IO,
                       data_is_folder(path) ? "%s: is a folder, expected a file" : "%s: not a readable file",
                       path);
    }
    r.size = (uint64_t)st.st_size < max ? (size_t)st.st_size + 1 : max + 1;
    if (promise && r.size < DATA_HEAD)
        r.size = DATA_HEAD;
    r.buf = malloc(r.size);
    if (!r.buf)
        rc = err_set(e, ERR_NOMEM, "no memory for %zu bytes", r.size);
    if (rc == 0 && promise)
        rc = read_head(&r, promise, e);
    if (rc == 0)
        rc = read_rest(&r, e);
    if (gzclose_r(r.file) != Z_OK && rc == 0)
        rc = err_set(e, ERR_CONFIG, "cannot be unpacked: its end is missing, %zu bytes unpacked until there",
                     r.len);
    if (rc < 0) {
        free(r.buf);
        return err_at(e, "%s", path);
    }
    *out = r.buf;
    *len = r.len;
    return 0;
}

int data_read_at_most(uint8_t **out, size_t *len, size_t max, const char *path, struct err *e)
{
    return read_file(out, len, max, NULL, path, e);
}

int data_read_promised(uint8_t **out, size_t *len, data_promise promise, const char *path, struct err *e)
{
    return read_file(out, len, DATA_BYTES_MAX, promise, path, e);
}

int data_read(uint8_t **out, size_t *len, const char *path, struct err *e)
{
    return data_read_at_most(out, len, DATA_BYTES_MAX, path, e);
}

int data_find(char path[PATH_MAX], const char *dir, const char *name, struct err *e)
{
    char packed[512];
    bool is_folder;

    if (file_join(path, PATH_MAX, dir, name, e) < 0)
        return e->code;
    if (access(path, F_OK) == 0 && !data_is_folder(path))
        return 0;
    is_folder = data_is_folder(path);
    snprintf(packed, sizeof packed, "%s.gz", name);
    if (file_join(path, PATH_MAX, dir, packed, e) < 0)
        return e->code;
    if (access(path, F_OK) == 0 && !data_is_folder(path))
        return 0;
    return err_set(e, ERR_NOT_FOUND,
                   is_folder ? "%s/%s is a folder, expected a file"
                             : "%s/%s: not found, neither plain nor with .gz",
                   dir, name);
}

bool data_is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int data_folder(char *out, size_t size, const char *set, const char *chosen, struct err *e)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int len = (int)strcspn(set, ":/");
    int n;

    if (chosen[0])
        n = snprintf(out, size, "%s", chosen);
    else if (cache && cache[0] == '/')
        n = snprintf(out, size, "%s/psgd/%.*s", cache, len, set);
    else
        n = snprintf(out, size, "%s/.cache/psgd/%.*s", home && home[0] == '/' ? home : ".", len, set);
    return n < (int)size ? 0 : err_set(e, ERR_CONFIG, "the data folder's path is too long");
}

#define UNPACK        "It is unpacked by: "
#define CONVERT_TABLE "pandas converts it: .to_csv(\"NEW.csv\", index=False)."

/* Of two beginnings that agree, the longer one is first. */
static const struct {
    size_t at;
    const char *magic;
    size_t len;
    const char *is, *hint;
} kinds[] = {
#define AT(at, magic) at, magic, sizeof magic - 1
    {AT(30, "[Content_Types].xml"), "an Excel workbook or another document of Office", CONVERT_TABLE},
    {AT(30, "mimetype"), "an OpenDocument file", CONVERT_TABLE},
    {AT(0, "PK\3\4"), "packed by zip", UNPACK "unzip FILE. NumPy's .npz is read by --dataset npz."},
    {AT(0, "PK\5\6"), "an empty zip file", ""},
    {AT(0, "BZh"), "packed by bzip2", UNPACK "bunzip2 -k FILE. A file packed by gzip is read as it is."},
    {AT(0, "\xfd"
           "7zXZ"),
     "packed by xz", UNPACK "unxz -k FILE. A file packed by gzip is read as it is."},
    {AT(0, "\x28\xb5\x2f\xfd"), "packed by zstd",
     UNPACK "unzstd FILE. A file packed by gzip is read as it is."},
    {AT(0, "\x04\x22\x4d\x18"), "packed by lz4",
     UNPACK "unlz4 FILE. A file packed by gzip is read as it is."},
    {AT(0, "\x1f\x8b"), "packed by gzip twice", UNPACK "gunzip -k FILE"},
    {AT(0, "\x1f\x9d"), "packed by compress", UNPACK "uncompress -k FILE"},
    {AT(0, "7z\xbc\xaf\x27\x1c"), "packed by 7-Zip", UNPACK "7z x FILE"},
    {AT(0, "Rar!\x1a\x07"), "packed by RAR", UNPACK "unrar x FILE"},
    {AT(TAR_AT, "ustar"), "a tar archive", UNPACK "tar xf FILE"},
    {AT(0, "PAR1"), "a Parquet file", CONVERT_TABLE},
    {AT(0, "ARROW1"), "an Arrow or Feather file", CONVERT_TABLE},
    {AT(0, "FEA1"), "a Feather file", CONVERT_TABLE},
    {AT(0, "ORC"), "an ORC file", CONVERT_TABLE},
    {AT(0, "Obj\1"), "an Avro file", CONVERT_TABLE},
    {AT(0, "\x89HDF\r\n\x1a\n"), "an HDF5 file",
     "numpy.savez() of its arrays writes what --dataset npz reads."},
    {AT(0, "MATLAB 5.0"), "a MATLAB file",
     "numpy.savez() of scipy.io.loadmat()'s arrays is read by --dataset npz."},
    {AT(0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "a document of Office 97 or an Excel workbook (.xls)",
     CONVERT_TABLE},
    {AT(0, "SQLite format 3"), "an SQLite database",
     "sqlite3 -csv -header FILE \"select * from TABLE\" >NEW.csv"},
    {AT(0, "\x93NUMPY"), "a NumPy array (.npy)", "--dataset npy reads a folder of them."},
    {AT(0, "\x80\2"), "a Python pickle", "numpy.savez() of its arrays writes what --dataset npz reads."},
    {AT(0, "\x80\3"), "a Python pickle", "numpy.savez() of its arrays writes what --dataset npz reads."},
    {AT(0, "\x80\4\x95"), "a Python pickle", "numpy.savez() of its arrays writes what --dataset npz reads."},
    {AT(0, "\x80\5\x95"), "a Python pickle", "numpy.savez() of its arrays writes what --dataset npz reads."},
    {AT(0, "%PDF-"), "a PDF document", ""},
    {AT(0, "\x89PNG\r\n"), "an image (PNG)", ""},
    {AT(0, "\xff\xd8\xff"), "an image (JPEG)", ""},
    {AT(0, "GIF8"), "an image (GIF)", ""},
    {AT(0, "\x7f"
           "ELF"),
     "a program", ""},
    {AT(0, "\0\0\x08\1"), "an IDX file of labels", "--dataset idx reads a folder of four IDX files."},
    {AT(0, "\0\0\x08\3"), "an IDX file of images", "--dataset idx reads a folder of four IDX files."},
    {AT(0, "version https://git-lfs"), "a pointer of Git LFS to a file that is elsewhere",
     "git lfs pull fetches the file."},
#undef AT
};

static int refuse_as(const char *what, const char *hint, struct err *e)
{
    err_set(e, ERR_CONFIG, "it is %s", what);
    return hint[0] ? err_hint(e, "%s", hint) : e->code;
}

int data_refuse_kind(const void *bytes, size_t len, struct err *e)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (len >= kinds[i].at + kinds[i].len &&
            memcmp((const char *)bytes + kinds[i].at, kinds[i].magic, kinds[i].len) == 0)
            return refuse_as(kinds[i].is, kinds[i].hint, e);
    return 0;
}

/* The name that iconv has for the encoding; NULL: its units are bytes. UTF-16 without a mark is recognised by
 * the zero bytes of Latin letters, digits or spaces, all at even or all at odd places. */
static const char *wide_form(const char *text, size_t len)
{
    size_t n = len < LOOKED_AT ? len : LOOKED_AT, n_zeros[2] = {0};

    if (n >= 4 && (memcmp(text, "\xff\xfe\0\0", 4) == 0 || memcmp(text, "\0\0\xfe\xff", 4) == 0))
        return "UTF-32";
    if (n >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return "UTF-16";
    for (size_t i = 0; i < n; i++)
        n_zeros[i % 2] += text[i] == '\0';
    if (n_zeros[0] + n_zeros[1] <= n / 8 || (n_zeros[0] > 0 && n_zeros[1] > 0))
        return NULL;
    return n_zeros[0] > 0 ? "UTF-16BE" : "UTF-16LE";
}

int data_check_text(const char *text, size_t len, struct err *e)
{
    const char *wide = wide_form(text, len);
    const char *zero = len > 0 ? memchr(text, '\0', len) : NULL;

    if (data_refuse_kind(text, len, e) < 0)
        return e->code;
    if (wide) {
        err_set(e, ERR_CONFIG, "it is %.6s, expected UTF-8", wide);
        return err_hint(e, "iconv -f %s -t UTF-8 FILE >NEW converts it.", wide);
    }
    if (zero)
        return err_set(e, ERR_CONFIG, "it is no text: byte %zu is zero", (size_t)(zero - text) + 1);
    return 0;
}

size_t data_mark(const char *text, size_t len)
{
    return len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static bool begins_with(const char *at, const char *end, const char *with)
{
    return (size_t)(end - at) >= strlen(with) && strncasecmp(at, with, strlen(with)) == 0;
}

static const char *skip_set(const char *at, const char *end, const char *set)
{
    while (at < end && *at && strchr(set, *at))
        at++;
    return at;
}

/* ARFF may begin with lines of comments. */
static const char *skip_comments(const char *at, const char *end)
{
    while (at < end && *at == '%') {
        const char *feed = memchr(at, '\n', (size_t)(end - at));

        at = skip_set(feed ? feed : end, end, " \t\r\n");
    }
    return at;
}

/* "+1 1:0.5 7:2": a number, then index:value, or qid:N, at least once. */
static bool is_libsvm(const char *at, const char *end)
{
    const char *label = at;
    const char *index;

    at = skip_set(at, end, "0123456789.+-eE");
    if (at == label || at == end || (*at != ' ' && *at != '\t'))
        return false;
    index = at = skip_set(at, end, " \t");
    at = begins_with(at, end, "qid") ? at + 3 : skip_set(at, end, "0123456789");
    return at > index && end - at > 1 && *at == ':' && strchr("0123456789.+-", at[1]);
}

int data_check_table(const char *text, size_t len, struct err *e)
{
    static const struct {
        const char *begin, *is, *hint;
    } forms[] = {
        {"@relation", "an ARFF file",
         "pandas.DataFrame(scipy.io.arff.loadarff(FILE)[0]).to_csv() converts it."},
        {"sep=", "a table whose first line is Excel's \"sep=\"",
         "sed 1d FILE >NEW removes that line; cells are separated by commas."},
        {"\"sep=", "a table whose first line is Excel's \"sep=\"",
         "sed 1d FILE >NEW removes that line; cells are separated by commas."},
        {"<!doctype html", "an HTML page",
         "A download that needs a login often ends with a page: open the file with a browser."},
        {"<html", "an HTML page",
         "A download that needs a login often ends with a page: open the file with a browser."},
        {"<?xml", "an XML document", CONVERT_TABLE},
        {"{", "a JSON document", CONVERT_TABLE},
        {"[{", "a JSON document", CONVERT_TABLE},
        {"[[", "a JSON document", CONVERT_TABLE},
    };
    const char *end = text + len;
    const char *at = skip_comments(skip_set(text + data_mark(text, len), end, " \t\r\n"), end);
    const char *feed = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    const char *line_end = feed ? feed : end;
    const char *cr = at < end ? memchr(at, '\r', (size_t)(line_end - at)) : NULL;

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (begins_with(at, line_end, forms[i].begin))
            return refuse_as(forms[i].is, forms[i].hint, e);
    if (is_libsvm(at, cr ? cr : line_end))
        return refuse_as("a file of LIBSVM, \"label index:value ...\"", "--dataset libsvm reads it.", e);
    if (cr && cr + 1 < end && cr[1] != '\n' && !feed) {
        err_set(e, ERR_CONFIG, "its lines end with CR, expected LF or CR LF");
        return err_hint(e, "tr '\\r' '\\n' <FILE >NEW converts it.");
    }
    return 0;
}
