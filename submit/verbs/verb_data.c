/* data fetch mnist: downloads four files from a public mirror. The SHA-256 of the unpacked bytes is
 * checked, because mirrors pack differently. A correct file is kept, and a new one gets its name only when
 * it is complete and correct. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/crypto.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/data/data_file.h"
#include "submit/data/data_formats.h"
#include "submit/data/dataset.h"
#include "submit/files/temp.h"
#include "submit/net/http_client.h"
#include "submit/terminal/console.h"
#include "submit/terminal/interrupt.h"
#include "submit/terminal/stdout.h"
#include "submit/terminal/text.h"
#include "submit/verbs/verbs.h"

static const struct data_file {
    const char *name;
    bool is_images;
    const char *sha256; /* unpacked */
} files[] = {
    {"train-images-idx3-ubyte.gz", true, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
    {"train-labels-idx1-ubyte.gz", false, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
    {"t10k-images-idx3-ubyte.gz", true, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
    {"t10k-labels-idx1-ubyte.gz", false, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
};
enum { N_FILES = sizeof files / sizeof *files, PACKED_MAX = 64 << 20, DOWNLOAD_S = 600 };

static const char *const mirrors[] = {"https://ossci-datasets.s3.amazonaws.com/mnist",
                                      "https://storage.googleapis.com/cvdf-datasets/mnist", NULL};

static void put_be32(uint8_t out[4], size_t v)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* SHA-256 of the unpacked file: the header is rebuilt from the parsed values, because these files hold
 * nothing else besides the data. */
static int unpacked_sum(char hex[SHA256_HEX], const struct data_file *f, const char *path, struct err *e)
{
    uint8_t header[16] = {0, 0, 8, 3};
    uint8_t sum[SHA256_BYTES];
    struct sha256_sum *x;
    uint8_t *data;
    size_t n;
    size_t bytes;

    if (f->is_images) {
        int rows, cols;

        if (idx_read_images(&data, &n, &rows, &cols, path, e) < 0)
            return e->code;
        put_be32(header + 8, (size_t)rows);
        put_be32(header + 12, (size_t)cols);
        bytes = n * (size_t)rows * (size_t)cols;
    } else {
        int32_t *labels;

        if (idx_read_labels(&labels, &n, path, e) < 0)
            return e->code;
        data = (uint8_t *)labels;
        for (size_t i = 0; i < n; i++)
            data[i] = (uint8_t)labels[i]; /* in place: byte i lies before all labels still to be read */
        header[3] = 1;
        bytes = n;
    }
    put_be32(header + 4, n);
    x = sha256_start();
    if (x) {
        sha256_add(x, header, f->is_images ? 16 : 8);
        sha256_add(x, data, bytes);
    }
    sha256_end(x, sum);
    free(data);
    hex_encode(hex, sum, sizeof sum);
    return x ? 0 : err_set(e, ERR_NOMEM, "no memory");
}

static int check_data_file(const struct data_file *f, const char *path, struct err *e)
{
    char hex[SHA256_HEX];

    if (unpacked_sum(hex, f, path, e) < 0)
        return err_at(e, "%s does not have the SHA-256 of the published file", f->name);
    if (strcmp(hex, f->sha256) != 0)
        return err_set(e, ERR_CONFIG, "%s: its unpacked bytes have SHA-256 %s, expected %s", f->name, hex,
                       f->sha256);
    return 0;
}

static int download_file(struct http *h, const char *url, const char *path, struct err *e)
{
    struct http_request r = {
        .method = "GET", .is_public = true, .max_reply = PACKED_MAX, .timeout_s = DOWNLOAD_S, .peer = url};
    FILE *f = fopen(path, "wbx");
    int rc = 0;

    if (!f)
        return err_errno(e, ERR_IO, "%s", path);
    snprintf(r.url, sizeof r.url, "%s", url);
    r.reply_fd = fileno(f);
    if (http_start(h, &r, e) < 0)
        rc = e->code;
    while (r.busy && rc == 0) {
        http_poll(h, 0.5);
        rc = interrupt_check(e);
    }
    if (rc == 0 && r.err.code) {
        *e = r.err;
        rc = e->code;
    } else if (rc == 0 && r.status != 200) {
        rc = err_set(e, ERR_UNREACHABLE, "%s: status %d", url, r.status);
    }
    http_clear(h, &r);
    fclose(f);
    return rc;
}

/* Fetches one file from the first mirror that has a correct copy. */
static int fetch_file(struct http *h, const struct data_file *f, const char *dir, const char *const *from,
                      struct err *e)
{
    char path[PATH_MAX], part[PATH_MAX], url[HTTP_URL], amount[TEXT_AMOUNT];
    struct err ignored;
    int rc = err_set(e, ERR_UNREACHABLE, "no mirror");

    if (file_join(path, sizeof path, dir, f->name, e) < 0 ||
        snprintf(part, sizeof part, "%s.part.%ld", path, (long)getpid()) >= (int)sizeof part)
        return err_set(e, ERR_CONFIG, "%s: path too long", dir);
    if (access(path, F_OK) == 0 && check_data_file(f, path, &ignored) == 0) {
        console_info("%s exists and is correct.", path);
        return 0;
    }
    for (; *from && rc < 0 && !interrupt_signal(); from++) {
        uint8_t sum[SHA256_BYTES];
        uint64_t bytes;

        size_t n = strlen(*from);

        while (n > 0 && (*from)[n - 1] == '/')
            n--;
        if (n >= HTTP_URL || snprintf(url, sizeof url, "%.*s/%s", (int)n, *from, f->name) >= (int)sizeof url)
            return err_set(e, ERR_USAGE, "%s: URL too long", *from);
        console_info("Downloading %s.", url);
        rc = download_file(h, url, part, e);
        if (rc == 0)
            rc = check_data_file(f, part, e);
        if (rc == 0)
            rc = sha256_file(sum, &bytes, part, e);
        if (rc == 0 && rename(part, path) < 0)
            rc = err_errno(e, ERR_IO, "%s", path);
        if (rc == 0)
            console_info("%s: %s, unpacked bytes verified.", path, text_bytes(amount, bytes));
        else
            console_error("%s", e->text);
        unlink(part);
    }
    return rc;
}

static int fetch_mnist(const struct options *o, struct err *e)
{
    const char *const mine[] = {o->mirror, NULL};
    char dir[PATH_MAX];
    struct http *h;
    int rc = 0;

    if (data_folder(dir, sizeof dir, "mnist", o->to, e) < 0 || file_mkdirs(dir, 0777, e) < 0)
        return e->code;
    h = http_new(e);
    if (!h)
        return e->code;
    for (int i = 0; i < N_FILES && rc == 0; i++)
        rc = fetch_file(h, &files[i], dir, o->mirror[0] ? mine : mirrors, e);
    http_free(h);
    if (rc < 0)
        return rc;
    if (o->json)
        stdout_json(true, json_pack("{s:o}", "folder", json_text(dir, SIZE_MAX)), NULL, NULL);
    else
        printf("%s\n", dir);
    console_plain("next: job_submit --dataset mnist%s%s ...", o->to[0] ? " --data " : "", o->to);
    return 0;
}

int verb_data(const struct options *o, struct err *e)
{
    const char *const *words = o->args.operands;
    int n = o->args.n_operands;

    if (n == 2 && strcmp(words[0], "fetch") == 0 && strcmp(words[1], "mnist") == 0)
        return fetch_mnist(o, e);
    if (n == 1 && strcmp(words[0], "tokenize") == 0)
        return verb_data_tokenize(o, e);
    return err_set(e, ERR_USAGE, "data takes the arguments \"fetch mnist\" or \"tokenize\"");
}
