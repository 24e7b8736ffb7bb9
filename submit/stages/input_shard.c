#include "submit/stages/input_shard.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shared/base/file.h"
#include "shared/records/tensor_file.h"
#include "submit/files/temp.h"
#include "submit/terminal/console.h"

enum { WORD = 8 /* bytes of the longest number */ };

#define INPUT_MAX ((size_t)4 << 30)

struct executor_input {
    char *bytes; /* (n), then a 0; owned. NULL: none */
    size_t n;
    size_t last; /* where the last file begins */
    bool has_text;
    char not_text[PATH_MAX]; /* the first file that is no text; "": all are text */
};

static bool is_text(const char *bytes, size_t n)
{
    return n == 0 || !memchr(bytes, '\0', n);
}

void input_shard_cut(size_t *starts, int n_nodes, const char *bytes, size_t n)
{
    size_t parts = (size_t)n_nodes;
    bool has_lines = is_text(bytes, n);

    for (size_t k = 0; k <= parts; k++) {
        size_t at = n / parts * k + n % parts * k / parts;
        const char *lf;

        if (at == 0 || at == n) {
            starts[k] = at;
        } else if (!has_lines) {
            starts[k] = at / WORD * WORD;
        } else {
            lf = memchr(bytes + at - 1, '\n', n - at + 1);
            starts[k] = lf ? (size_t)(lf - bytes) + 1 : n;
        }
    }
}

/* Appends a file's bytes. Between two files of text a missing line feed is added, so that no line continues
 * in the next file. */
static int append_file(struct executor_input *in, const char *path, struct err *e)
{
    struct executor_input more = {0};
    char *longer;
    bool lacks_lf;

    if (file_read(&more.bytes, &more.n, path, INPUT_MAX - in->n, e) < 0)
        return e->code;
    if (is_text(more.bytes, more.n))
        in->has_text = true;
    else if (!in->not_text[0])
        snprintf(in->not_text, sizeof in->not_text, "%s", path);
    if (!in->bytes) {
        in->bytes = more.bytes;
        in->n = more.n;
        return 0;
    }
    lacks_lf = in->n > in->last && in->bytes[in->n - 1] != '\n' &&
               is_text(in->bytes + in->last, in->n - in->last) && is_text(more.bytes, more.n);
    longer = realloc(in->bytes, in->n + lacks_lf + more.n + 1);
    if (!longer) {
        free(more.bytes);
        return err_set(e, ERR_NOMEM, "no memory for %zu bytes of input", in->n + more.n);
    }
    in->bytes = longer;
    if (lacks_lf)
        in->bytes[in->n++] = '\n';
    in->last = in->n;
    memcpy(in->bytes + in->n, more.bytes, more.n + 1);
    in->n += more.n;
    free(more.bytes);
    return 0;
}

static int is_visible(const struct dirent *f)
{
    return f->d_name[0] != '.';
}

static int append_from_folder(struct executor_input *in, const char *folder, const char *name, struct err *e)
{
    char path[PATH_MAX];
    struct stat st;

    if (file_join(path, sizeof path, folder, name, e) < 0)
        return e->code;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : append_file(in, path, e);
}

/* Reads the files of a folder in the order of their names; folders in it are skipped. */
static int read_folder(struct executor_input *in, const char *folder, struct err *e)
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, is_visible, alphasort), rc = 0;

    if (n < 0)
        return err_errno(e, ERR_NOT_FOUND, "--data %s", folder);
    for (int i = 0; i < n; i++) {
        if (rc == 0)
            rc = append_from_folder(in, folder, names[i]->d_name, e) < 0 ? err_at(e, "--data %s", folder) : 0;
        free(names[i]);
    }
    free(names);
    if (rc == 0 && !in->bytes)
        rc = err_set(e, ERR_CONFIG, "--data %s: the folder has no file", folder);
    return rc;
}

static int read_input(struct executor_input *in, const char *path, struct err *e)
{
    struct stat st;

    if (!path[0])
        return 0;
    if (stat(path, &st) < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "--data %s", path);
    if (S_ISDIR(st.st_mode))
        return read_folder(in, path, e);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_CONFIG, "--data %s: neither a file nor a folder", path);
    return append_file(in, path, e) < 0 ? err_at(e, "--data") : 0;
}

/* While the shard is written, the byte behind it is set to 0. */
static int make_input_shard(struct blob *out, char *bytes, size_t n, const struct temp *t, struct err *e)
{
    const struct tensor_view tensor = {
        .name = "input", .type = TENSOR_U8, .n_dims = 1, .shape = {n + 1}, .data = bytes};
    char path[PATH_MAX], behind = bytes[n];
    int rc;

    if (file_join(path, sizeof path, t->path, "train.safetensors", e) < 0)
        return e->code;
    bytes[n] = '\0';
    rc = tensor_file_write_unsynced(path, &tensor, 1, NULL, e);
    bytes[n] = behind;
    return rc < 0 ? rc : blob_take_file(out, path, e);
}

static int make_input_shards(struct submission *s, char *bytes, size_t n, struct err *e)
{
    int n_nodes = s->settings.node_count, rc = 0;
    size_t *starts = malloc(((size_t)n_nodes + 1) * sizeof *starts);
    json_t *lengths = json_array();
    struct temp t;

    s->shards = calloc((size_t)n_nodes, sizeof *s->shards);
    if (!starts || !s->shards)
        rc = err_set(e, ERR_NOMEM, "no memory for %d shards", n_nodes);
    if (rc == 0 && (rc = temp_open(&t, e)) == 0) {
        input_shard_cut(starts, n_nodes, bytes, n);
        for (int k = 0; k < n_nodes && rc == 0; k++) {
            rc = make_input_shard(&s->shards[k], bytes + starts[k], starts[k + 1] - starts[k], &t, e);
            json_array_append_new(lengths, json_integer((json_int_t)(starts[k + 1] - starts[k])));
        }
        temp_close(&t);
    }
    json_object_set_new(s->facts, "input",
                        json_pack("{s:I, s:s, s:o}", "bytes", (json_int_t)n, "cut_at",
                                  is_text(bytes, n) ? "lines" : "words", "shards", lengths));
    free(starts);
    return rc;
}

int input_shard_make(struct submission *s, struct err *e)
{
    struct executor_input in = {0};
    char none[1] = "";
    int rc = read_input(&in, s->opt->data, e);

    if (rc == 0 && in.has_text && in.not_text[0])
        console_info(
            "--data %s: %s has a zero byte, so it is no text, and the input is cut at multiples of %d "
            "bytes instead of at lines.",
            s->opt->data, in.not_text, WORD);
    if (rc == 0)
        rc = make_input_shards(s, in.bytes ? in.bytes : none, in.n, e);
    free(in.bytes);
    return rc;
}
