#include "submit/codecs/codec_find.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/choice.h"
#include "shared/base/crypto.h"
#include "shared/base/file.h"

enum { FOLDERS_MAX = 16 };

/* The folders that are searched, and the endings of a codec's file in each. */
struct places {
    struct {
        char dir[PATH_MAX];
        const char *endings[3];
    } items[FOLDERS_MAX];
    int n;
};

static void add_place(struct places *p, const char *dir, size_t len, const char *first, const char *second)
{
    if (p->n == FOLDERS_MAX || len == 0 || len >= PATH_MAX - FIND_NAME_LEN)
        return;
    memcpy(p->items[p->n].dir, dir, len);
    p->items[p->n].dir[len] = '\0';
    p->items[p->n].endings[0] = first;
    p->items[p->n].endings[1] = second;
    p->items[p->n].endings[2] = NULL;
    p->n++;
}

static void add_beside(struct places *p, const char *exe_dir, const char *folder, const char *ending)
{
    char beside[PATH_MAX];
    int n = snprintf(beside, sizeof beside, "%s/%s", exe_dir, folder);

    if (n > 0 && n < (int)sizeof beside)
        add_place(p, beside, (size_t)n, ending, NULL);
}

static void add_codec_places(struct places *p, const char *exe_dir)
{
    const char *path = getenv("PSGD_CODEC_PATH");

    add_beside(p, exe_dir, "codecs", ".so");
    while (path && *path) {
        size_t n = strcspn(path, ":");

        add_place(p, path, n, ".so", ".c");
        path += n + (path[n] == ':');
    }
    add_place(p, "./codecs", 8, ".c", NULL);
}

static bool is_listed(char (*names)[FIND_NAME_LEN], int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static int list_folder(char (*names)[FIND_NAME_LEN], int n, const char *dir, const char *const *endings)
{
    DIR *d = opendir(dir);
    struct dirent *f;

    while (d && (f = readdir(d)) != NULL)
        for (const char *const *end = endings; *end; end++) {
            char name[FIND_NAME_LEN];
            size_t len = strlen(f->d_name);

            if (!file_has_ending(f->d_name, *end) || len - strlen(*end) >= FIND_NAME_LEN ||
                n == FIND_NAMES_MAX)
                continue;
            snprintf(name, sizeof name, "%.*s", (int)(len - strlen(*end)), f->d_name);
            if (!is_listed(names, n, name))
                strcpy(names[n++], name);
        }
    if (d)
        closedir(d);
    return n;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int list_all(char names[FIND_NAMES_MAX][FIND_NAME_LEN], const struct places *p)
{
    int n = 0;

    for (int i = 0; i < p->n; i++)
        n = list_folder(names, n, p->items[i].dir, p->items[i].endings);
    qsort(names, (size_t)n, sizeof *names, by_text);
    return n;
}

/* Tries dir/text+ending in order; returns the ending of the first readable file, or NULL. */
static const char *look_in_places(char out[PATH_MAX], const struct places *p, const char *text)
{
    for (int i = 0; i < p->n; i++)
        for (const char *const *end = p->items[i].endings; *end; end++) {
            int n = snprintf(out, PATH_MAX, "%s/%s%s", p->items[i].dir, text, *end);

            if (n < PATH_MAX && access(out, R_OK) == 0)
                return *end;
        }
    return NULL;
}

/* Joins names with spaces; if they do not all fit, as many as fit and three dots. */
static void join(char *out, size_t room, char (*names)[FIND_NAME_LEN], int n)
{
    static const char more[] = " ...";
    size_t len = 0;
    bool fits = true;

    for (int i = 0; i < n && fits; i++) {
        const char *text = names[i];

        fits = len + 1 + strlen(text) + sizeof more <= room;
        text = fits ? text : "...";
        if (i > 0)
            out[len++] = ' ';
        memcpy(out + len, text, strlen(text));
        len += strlen(text);
    }
    out[len] = '\0';
}

/* `here`: the working directory, which is not searched; if it has a file of this name, the hint names that
 * file. `also`: further names for the suggestion; NULL: none. */
static int unknown(const char *kind, const char *text, const struct places *p, const struct places *here,
                   const char *const *also, int code, struct err *e)
{
    char path[PATH_MAX];
    char names[FIND_NAMES_MAX][FIND_NAME_LEN];
    const char *choices[FIND_NAMES_MAX + 1];
    char list[256];
    const char *near;
    int n = list_all(names, p), n_choices = n;

    for (int i = 0; i < n; i++)
        choices[i] = names[i];
    join(list, sizeof list, names, n);
    for (; also && *also && n_choices < FIND_NAMES_MAX; also++)
        choices[n_choices++] = *also;
    choices[n_choices] = NULL;
    if (look_in_places(path, here, text)) {
        err_set(e, code, "unknown %s \"%s\"", kind, text);
        return err_hint(e, "A file of your own is named with its path: --%s %s", kind, path);
    }
    near = choice_near(text, choices);
    if (near)
        err_set(e, code, "unknown %s \"%s\"; did you mean \"%s\"?", kind, text, near);
    else
        err_set(e, code, "unknown %s \"%s\"", kind, text);
    return err_hint(e, "Known here: %s. A file of your own is named with its path: --%s ./FILE",
                    n ? list : "none", kind);
}

static int take_path(char out[PATH_MAX], const char *text, int code, struct err *e)
{
    struct stat st;

    if (snprintf(out, PATH_MAX, "%s", text) >= PATH_MAX)
        return err_set(e, code, "%s: path too long", text);
    if (access(text, R_OK) < 0 || stat(text, &st) < 0)
        return err_errno(e, code, "%s", text);
    if (S_ISDIR(st.st_mode))
        return err_set(e, code, "%s: is a folder, expected a file", text);
    return S_ISREG(st.st_mode) ? 0 : err_set(e, code, "%s: not a regular file", text);
}

bool find_is_path(const char *text)
{
    return strchr(text, '/') || file_has_ending(text, ".c") || file_has_ending(text, ".so") ||
           file_has_ending(text, ".json");
}

static void find_source(struct codec_file *out, const char *text, const char *exe_dir)
{
    char object[PATH_MAX];
    int n = snprintf(object, sizeof object, "%s/codecs/%s.so", exe_dir, text);

    out->source[0] = '\0';
    out->is_built_in = !out->is_source && n < PATH_MAX && strcmp(object, out->path) == 0;
    if (out->is_source) {
        memcpy(out->source, out->path, sizeof out->source);
    } else if (out->is_built_in) {
        snprintf(out->source, sizeof out->source, "%.*s.c", n - 3, object);
        if (access(out->source, R_OK) < 0)
            out->source[0] = '\0';
    }
}

/* "MODULE.CLASS", as Parallel-SGD names a codec: MODULE is the name of the codec's file. */
static bool look_for_module(char out[PATH_MAX], const char *text)
{
    struct places p = {0};
    char module[FIND_NAME_LEN];
    size_t len = strcspn(text, ".");

    if (!text[len] || len == 0 || len >= sizeof module)
        return false;
    snprintf(module, sizeof module, "%.*s", (int)len, text);
    add_place(&p, "./codec", 7, ".c", NULL);
    add_place(&p, ".", 1, ".c", NULL);
    return look_in_places(out, &p, module);
}

static const char list_with_a_file[] =
    "A list of codecs can have a file only in the form '{\"layer0\": \"./mine.c\", \"*\": \"plain\"}'.";

int find_codec(struct codec_file *out, const char *text, const char *exe_dir, const char *const *also,
               struct err *e)
{
    struct places p = {0}, here = {0};
    const char *ending;

    if (find_is_path(text)) {
        out->is_source = file_has_ending(text, ".c");
        if (take_path(out->path, text, ERR_CODEC, e) < 0)
            return strchr(text, ',') ? err_hint(e, "%s", list_with_a_file) : e->code;
        find_source(out, text, exe_dir);
        return 0;
    }
    if (strchr(text, ','))
        return err_set(e, ERR_CODEC,
                       "\"%s\": a list of codecs is not possible here; name one codec for all layers", text);
    add_codec_places(&p, exe_dir);
    add_place(&here, ".", 1, ".c", ".so");
    ending = look_in_places(out->path, &p, text);
    if (!ending && look_for_module(out->path, text))
        ending = ".c";
    if (!ending)
        return unknown("codec", text, &p, &here, also, ERR_CODEC, e);
    out->is_source = strcmp(ending, ".c") == 0;
    find_source(out, text, exe_dir);
    return 0;
}

int find_executor(struct codec_file *out, const char *text, struct err *e)
{
    out->is_source = file_has_ending(text, ".c");
    if (take_path(out->path, text, ERR_CODEC, e) < 0)
        return e->code;
    if (!out->is_source && !file_has_ending(text, ".so"))
        return err_set(e, ERR_CODEC, "%s: an executor is a C file, NAME.c, or an object made of one, NAME.so",
                       text);
    snprintf(out->source, sizeof out->source, "%s", out->is_source ? out->path : "");
    return 0;
}

int find_codecs(char names[FIND_NAMES_MAX][FIND_NAME_LEN], const char *exe_dir)
{
    struct places p = {0};

    add_codec_places(&p, exe_dir);
    return list_all(names, &p);
}

int find_model(char out[PATH_MAX], const char *text, const char *exe_dir, struct err *e)
{
    struct places p = {0}, here = {0};

    if (find_is_path(text))
        return take_path(out, text, ERR_CONFIG, e);
    add_beside(&p, exe_dir, "models", ".json");
    add_place(&here, ".", 1, ".json", NULL);
    return look_in_places(out, &p, text) ? 0 : unknown("model", text, &p, &here, NULL, ERR_CONFIG, e);
}

int find_models(char names[FIND_NAMES_MAX][FIND_NAME_LEN], const char *exe_dir)
{
    struct places p = {0};

    add_beside(&p, exe_dir, "models", ".json");
    return list_all(names, &p);
}

bool codec_file_has_sum(const char *path, const char *sha256)
{
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];
    struct err ignored;
    uint64_t bytes;

    if (sha256_file(sum, &bytes, path, &ignored) < 0)
        return false;
    hex_encode(hex, sum, sizeof sum);
    return strcmp(hex, sha256) == 0;
}

bool codec_file_is_same(const char *name, const json_t *facts)
{
    const char *of_source = json_string_value(json_object_get(facts, "source_sha256"));
    const char *of_object = json_string_value(json_object_get(facts, "sha256"));
    char exe_dir[PATH_MAX];
    struct codec_file found;
    struct err ignored;

    if (file_exe_dir(exe_dir, sizeof exe_dir, &ignored) < 0 ||
        find_codec(&found, name, exe_dir, NULL, &ignored) < 0)
        return false;
    if (of_source && of_source[0])
        return codec_file_has_sum(found.source[0] ? found.source : found.path, of_source);
    return of_object && codec_file_has_sum(found.path, of_object);
}
