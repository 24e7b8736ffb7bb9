#include "submit/browse/result_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/crypto.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/data/data_file.h"

enum { CACHE_MAX = 64 << 20 };

/* The file of these folders, as the user named them in the current folder: lines have such paths. */
static int cache_path(char *out, size_t size, const struct result_list *l, struct err *e)
{
    char cwd[PATH_MAX], dir[PATH_MAX], hex[SHA256_HEX];
    json_t *names = json_array();
    char *text;

    if (!getcwd(cwd, sizeof cwd))
        return err_errno(e, ERR_IO, "the current folder");
    json_array_append_new(names, json_text(cwd, SIZE_MAX));
    for (size_t i = 0; i < l->n_roots; i++)
        json_array_append_new(names, json_text(l->roots[i], SIZE_MAX));
    text = json_dumps(names, JSON_COMPACT);
    json_decref(names);
    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for names of folders");
    sha256_hex(hex, text, strlen(text));
    free(text);
    hex[16] = '\0';
    if (data_folder(dir, sizeof dir, "results", "", e) < 0 || file_mkdirs(dir, 0700, e) < 0)
        return e->code;
    return file_join(out, size, dir, hex, e);
}

/* The program that has made the lines: another one may make them in another way. */
static json_t *this_program(void)
{
    struct stat st;

    if (stat("/proc/self/exe", &st) < 0)
        return NULL;
    return json_pack("[I, I, I, I]", (json_int_t)st.st_ino, (json_int_t)st.st_size,
                     (json_int_t)st.st_mtim.tv_sec, (json_int_t)st.st_mtim.tv_nsec);
}

/* Of a file that its owner could have changed only as this user. */
static int read_cache(char **out, size_t *len, const char *path, struct err *e)
{
    struct stat st;

    if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
        return err_set(e, ERR_NOT_FOUND, "%s: not a file of this user", path);
    return file_read(out, len, path, CACHE_MAX, e);
}

/* An entry is [folder, id, is_settled, inode, bytes, seconds, nanoseconds, line]; the line null: no valid
 * run.json. */
static void take_entry(struct result_list *l, json_t *entry)
{
    json_int_t inode, bytes, seconds, nanoseconds;
    const char *folder, *id;
    struct result_folder *b;
    struct err ignored;
    int is_settled;
    json_t *line;

    if (json_unpack(entry, "[s, s, b, I, I, I, I, o!]", &folder, &id, &is_settled, &inode, &bytes, &seconds,
                    &nanoseconds, &line) < 0 ||
        strlen(id) >= LISTED_ID || l->n == RESULT_LIST_MAX || json_object_get(l->at, folder) ||
        json_object_get(l->ids, id) || result_list_add(l, folder, &ignored) < 0)
        return;
    b = &l->folders[l->n - 1];
    snprintf(b->id, sizeof b->id, "%s", id);
    b->is_settled = is_settled;
    b->inode = (uint64_t)inode;
    b->bytes = bytes;
    b->changed = (struct timespec){.tv_sec = seconds, .tv_nsec = nanoseconds};
    if (json_is_object(line) && json_object_set_new(l->ids, id, json_integer(1)) == 0)
        b->line = json_incref(line);
}

/* The first line names the program, each other one is an entry. */
static void take_lines(struct result_list *l, char *text, size_t len)
{
    json_t *program = this_program();
    bool is_first = true;

    for (char *at = text, *end; at < text + len; at = end + 1) {
        json_t *o = NULL;
        struct err ignored;

        end = memchr(at, '\n', (size_t)(text + len - at));
        if (!end || json_parse(&o, at, (size_t)(end - at), "a line", &ignored) < 0)
            break;
        if (!is_first)
            take_entry(l, o);
        else if (!program || !json_equal(program, o))
            len = 0;
        is_first = false;
        json_decref(o);
    }
    json_decref(program);
}

void result_cache_load(struct result_list *l)
{
    char path[PATH_MAX];
    struct err ignored;
    size_t len;
    char *text;

    l->ids = json_object();
    l->at = json_object();
    if (!l->ids || !l->at || cache_path(path, sizeof path, l, &ignored) < 0 ||
        read_cache(&text, &len, path, &ignored) < 0)
        return;
    take_lines(l, text, len);
    free(text);
    l->version += l->n > 0;
    l->saved = l->version;
}

static void put_line(FILE *out, json_t *o)
{
    if (!o) /* as of a folder's name that is no UTF-8 */
        return;
    json_dumpf(o, out, JSON_COMPACT);
    fputc('\n', out);
    json_decref(o);
}

void result_cache_save(struct result_list *l)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t len = 0;
    struct err ignored;
    FILE *out;

    if (l->n < RESULT_CACHE_LEAST || l->saved == l->version ||
        cache_path(path, sizeof path, l, &ignored) < 0 || !(out = open_memstream(&text, &len)))
        return;
    put_line(out, this_program());
    for (size_t i = 0; i < l->n; i++) {
        const struct result_folder *b = &l->folders[i];

        if (b->line)
            put_line(out, json_pack("[s, s, b, I, I, I, I, O]", b->folder, b->id, b->is_settled,
                                    (json_int_t)b->inode, (json_int_t)b->bytes, (json_int_t)b->changed.tv_sec,
                                    (json_int_t)b->changed.tv_nsec, b->line));
    }
    if (fclose(out) == 0 && file_write(path, text, len, 0600, &ignored) == 0)
        l->saved = l->version;
    free(text);
}
