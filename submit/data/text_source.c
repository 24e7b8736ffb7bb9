#include "submit/data/text_source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/utf8.h"
#include "submit/data/data_file.h"

enum { FILES_MAX = 1 << 20, DEPTH_MAX = 16, UTF8_MAX = 4 };

static int append_document(struct text_source *s, const struct text_document *doc, struct err *e)
{
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        struct text_document *more = realloc(s->docs, room * sizeof *more);

        if (!more)
            return err_set(e, ERR_NOMEM, "no memory for %zu documents", room);
        s->docs = more;
        s->room = room;
    }
    s->docs[s->n++] = *doc;
    s->n_bytes += doc->len;
    return 0;
}

/* The files of a folder. */

static int append_topic(struct text_source *s, const char *name, struct err *e)
{
    size_t len = strlen(name) + 1;
    char *more = realloc(s->topics, s->topics_len + len);

    if (!more)
        return err_set(e, ERR_NOMEM, "no memory for %zu topics", s->n_topics);
    s->topics = more;
    memcpy(more + s->topics_len, name, len);
    s->topics_len += len;
    s->n_topics++;
    return 0;
}

static int is_visible(const struct dirent *f)
{
    return f->d_name[0] != '.';
}

/* Of a file that gzip has packed the bytes of the text, which its end states modulo 2^32; a text of more is
 * at least as long as its file. */
static size_t bytes_of_text(const char *path, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    uint8_t head[2], end[4];
    size_t n = 0;

    if (fd < 0)
        return size;
    if (size >= sizeof end && pread(fd, head, sizeof head, 0) == sizeof head && head[0] == 0x1f &&
        head[1] == 0x8b && pread(fd, end, sizeof end, (off_t)(size - sizeof end)) == sizeof end)
        n = end[0] | (size_t)end[1] << 8 | (size_t)end[2] << 16 | (size_t)end[3] << 24;
    close(fd);
    return n > size ? n : size;
}

static int find_documents(struct text_source *s, const char *dir, int depth, struct err *e);

/* The folders of the set's folder are topics. */
static int find_in(struct text_source *s, const char *dir, const char *name, int depth, struct err *e)
{
    char path[PATH_MAX];
    struct stat st;
    struct text_document doc;

    if (file_join(path, sizeof path, dir, name, e) < 0)
        return e->code;
    if (stat(path, &st) < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (S_ISDIR(st.st_mode))
        return depth == 0 && append_topic(s, name, e) < 0 ? e->code : find_documents(s, path, depth + 1, e);
    if (st.st_size == 0) {
        s->n_empty++;
        return 0;
    }
    if (s->n == FILES_MAX)
        return err_set(e, ERR_CONFIG, "more than %d files", FILES_MAX);
    doc = (struct text_document){.path = strdup(path),
                                 .len = bytes_of_text(path, (size_t)st.st_size),
                                 .topic = depth == 0 ? -1 : (int32_t)s->n_topics - 1};
    if (!doc.path)
        return err_set(e, ERR_NOMEM, "no memory for the name of a file");
    if (append_document(s, &doc, e) == 0)
        return 0;
    free(doc.path);
    return e->code;
}

/* In the order of their names. */
static int find_documents(struct text_source *s, const char *dir, int depth, struct err *e)
{
    struct dirent **names = NULL;
    int n = depth < DEPTH_MAX ? scandir(dir, &names, is_visible, alphasort) : 0, rc = 0;

    if (depth == DEPTH_MAX)
        return err_set(e, ERR_CONFIG, "%s: more than %d folders in each other", dir, DEPTH_MAX);
    if (n < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", dir);
    for (int i = 0; i < n; i++) {
        if (rc == 0)
            rc = find_in(s, dir, names[i]->d_name, depth, e);
        free(names[i]);
    }
    free(names);
    return rc;
}

/* Files beside the folders of topics have a topic of their own. */
static int name_topics(struct text_source *s, struct err *e)
{
    bool has_others = false;

    for (size_t i = 0; i < s->n; i++)
        has_others |= s->docs[i].topic < 0;
    if (s->n_topics == 0 || !has_others)
        return 0;
    if (append_topic(s, ".", e) < 0)
        return e->code;
    for (size_t i = 0; i < s->n; i++)
        if (s->docs[i].topic < 0)
            s->docs[i].topic = (int32_t)s->n_topics - 1;
    return 0;
}

/* The documents of a file. */

/* Where the line ends, without its CR LF. */
static size_t line_length(const char *at, const char *end, const char **next)
{
    const char *feed = memchr(at, '\n', (size_t)(end - at));

    *next = feed ? feed + 1 : end;
    end = feed ? feed : end;
    return (size_t)(end - at) - (end > at && end[-1] == '\r');
}

/* A line that is the separator is between two documents, and part of neither. */
static int find_separated(struct text_source *s, const char *separator, struct err *e)
{
    const char *text = s->file.at, *end = text + s->file.len, *next;
    size_t len = strlen(separator);
    struct text_document doc = {.topic = -1};

    for (const char *at = text; at < end; at = next) {
        size_t at_line = (size_t)(at - text);

        if (line_length(at, end, &next) != len || memcmp(at, separator, len) != 0)
            continue;
        doc.len = at_line - doc.at;
        s->n_empty += doc.len == 0;
        if (doc.len > 0 && append_document(s, &doc, e) < 0)
            return e->code;
        doc.at = (size_t)(next - text);
    }
    doc.len = s->file.len - doc.at;
    if (doc.len > 0 && append_document(s, &doc, e) < 0)
        return e->code;
    if (s->n == 1)
        dataset_warn(s->warnings, "no line \"%s\" divides the file into documents", separator);
    return 0;
}

/* The text of documents. */

struct text_check {
    const char *name;
    struct dataset_warnings *warnings;
    size_t len;
};

static int look_at_block(void *arg, const uint8_t *bytes, size_t at, size_t n, struct err *e)
{
    const struct text_check *c = arg;
    const uint8_t *zero = memchr(bytes, 0, n);
    size_t last = n < UTF8_MAX ? n : UTF8_MAX;

    if (at == 0 && data_check_text((const char *)bytes, n, e) < 0)
        return e->code;
    if (zero)
        return err_set(e, ERR_CONFIG, "it is no text: byte %zu is zero", at + (size_t)(zero - bytes) + 1);
    if (at + n == c->len && utf8_whole((const char *)bytes + n - last, last) < last)
        dataset_warn(c->warnings,
                     "%s ends inside a character of UTF-8, whose first bytes are its last tokens", c->name);
    return 0;
}

/* A byte 0 would be read as the end of a document. */
static int check_text(struct text_source *s, const struct data_map *m, const char *name, struct err *e)
{
    struct text_check c = {.name = name, .warnings = s->warnings, .len = m->len};

    return data_map_walk(m, look_at_block, &c, e) < 0 ? err_at(e, "%s", name) : 0;
}

int text_source_visit(struct text_source *s, struct text_document *doc,
                      int (*use)(void *arg, const uint8_t *text, size_t n, struct err *e), void *arg,
                      struct err *e)
{
    struct data_map m;
    int rc;

    if (!doc->path)
        return use(arg, (const uint8_t *)s->file.at + doc->at, doc->len, e);
    if (data_map_open(&m, doc->path, e) < 0)
        return e->code;
    rc = doc->is_checked ? 0 : check_text(s, &m, doc->path, e);
    doc->is_checked = true;
    if (rc == 0)
        rc = use(arg, m.at, m.len, e);
    data_map_close(&m);
    return rc;
}

/* All of a file, or the only document of a folder. */
static int open_file(struct text_source *s, const char *path, const char *separator, struct err *e)
{
    struct text_document whole = {.topic = -1};

    if (data_map_open(&s->file, path, e) < 0 || check_text(s, &s->file, path, e) < 0)
        return e->code;
    if (s->file.len == 0)
        return err_set(e, ERR_CONFIG, "%s: the file is empty", path);
    if (separator[0])
        return find_separated(s, separator, e);
    whole.len = s->file.len;
    return append_document(s, &whole, e);
}

static int open_folder(struct text_source *s, struct err *e)
{
    char *only;
    int rc;

    if (find_documents(s, s->path, 0, e) < 0)
        return e->code;
    if (s->n != 1)
        return name_topics(s, e);
    only = s->docs[0].path;
    s->n = s->n_bytes = s->n_topics = 0;
    rc = open_file(s, only, "", e);
    free(only);
    return rc;
}

int text_source_open(struct text_source *s, const char *path, const char *separator,
                     struct dataset_warnings *w, struct err *e)
{
    bool is_folder = data_is_folder(path);
    int rc;

    *s = (struct text_source){.path = path, .warnings = w};
    if (is_folder && separator[0])
        return err_set(e, ERR_CONFIG, "separator is for a file: the files of a folder are its documents");
    rc = is_folder ? open_folder(s, e) : open_file(s, path, separator, e);
    if (rc == 0 && s->n_bytes == 0)
        rc = err_set(e, ERR_CONFIG, "%s: there is no text, in %zu empty document%s", path, s->n_empty,
                     s->n_empty == 1 ? "" : "s");
    if (rc < 0)
        text_source_clear(s);
    else if (s->n_empty > 0)
        dataset_warn(w, "%zu empty document%s left out", s->n_empty, s->n_empty == 1 ? " is" : "s are");
    return rc;
}

void text_source_clear(struct text_source *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->docs[i].path);
    free(s->docs);
    free(s->topics);
    data_map_close(&s->file);
    *s = (struct text_source){0};
}
