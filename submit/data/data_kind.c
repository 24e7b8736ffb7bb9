#include "submit/data/data_kind.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { LOOKED_AT = 4096, TAR_AT = 257 };

#define UNPACK        "It is unpacked by: "
#define CONVERT_TABLE "pandas converts it: .to_csv(\"NEW.csv\", index=False)."

/* The longer of two beginnings that agree is first. */
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

static int is_a(const char *what, const char *hint, struct err *e)
{
    err_set(e, ERR_CONFIG, "it is %s", what);
    return hint[0] ? err_hint(e, "%s", hint) : e->code;
}

int data_refuse_kind(const void *bytes, size_t len, struct err *e)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (len >= kinds[i].at + kinds[i].len &&
            memcmp((const char *)bytes + kinds[i].at, kinds[i].magic, kinds[i].len) == 0)
            return is_a(kinds[i].is, kinds[i].hint, e);
    return 0;
}

/* The name by which iconv knows the encoding; NULL: its units are bytes. Without a mark UTF-16 is known by
 * the zeros of Latin letters, digits or spaces, all at even or all at odd places. */
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

static bool begins(const char *at, const char *end, const char *with)
{
    return (size_t)(end - at) >= strlen(with) && strncasecmp(at, with, strlen(with)) == 0;
}

static const char *skip(const char *at, const char *end, const char *set)
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

        at = skip(feed ? feed : end, end, " \t\r\n");
    }
    return at;
}

/* "+1 1:0.5 7:2": a number, then index:value, or qid:N, at least once. */
static bool is_libsvm(const char *at, const char *end)
{
    const char *label = at;
    const char *index;

    at = skip(at, end, "0123456789.+-eE");
    if (at == label || at == end || (*at != ' ' && *at != '\t'))
        return false;
    index = at = skip(at, end, " \t");
    at = begins(at, end, "qid") ? at + 3 : skip(at, end, "0123456789");
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
    const char *at = skip_comments(skip(text + data_mark(text, len), end, " \t\r\n"), end);
    const char *feed = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    const char *line_end = feed ? feed : end;
    const char *cr = at < end ? memchr(at, '\r', (size_t)(line_end - at)) : NULL;

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (begins(at, line_end, forms[i].begin))
            return is_a(forms[i].is, forms[i].hint, e);
    if (is_libsvm(at, cr ? cr : line_end))
        return is_a("a file of LIBSVM, \"label index:value ...\"", "--dataset libsvm reads it.", e);
    if (cr && cr + 1 < end && cr[1] != '\n' && !feed) {
        err_set(e, ERR_CONFIG, "its lines end with CR, expected LF or CR LF");
        return err_hint(e, "tr '\\r' '\\n' <FILE >NEW converts it.");
    }
    return 0;
}
