#include "submit/browse/result_list.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/json.h"
#include "shared/job/job_state.h"
#include "submit/browse/documents.h"
#include "submit/files/job_id.h"
#include "submit/files/run_file.h"
#include "submit/files/untrusted_folder.h"
#include "submit/job/job_node.h"
#include "submit/results/compare.h"

/* Levels below the folder; and below a sweep's folder, whose runs are in runs/NAME. */
enum { DEPTH = 2, DEPTH_OF_SWEEP = 2 };
/* The longest metrics.csv that is read for the list. */
enum { METRICS_BYTES = 4 << 20 };

static void drop_line(struct result_list *l, struct result_folder *b)
{
    if (b->line)
        json_object_del(l->ids, b->id);
    json_decref(b->line);
    b->line = NULL;
}

static void clear_folder(struct result_list *l, struct result_folder *b)
{
    drop_line(l, b);
    free(b->folder);
    *b = (struct result_folder){0};
}

void result_list_clear(struct result_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        clear_folder(l, &l->folders[i]);
    free(l->folders);
    json_decref(l->ids);
    json_decref(l->at);
    l->ids = NULL;
    l->at = NULL;
    l->folders = NULL;
    l->n = 0;
}

const struct result_folder *result_list_find(const struct result_list *l, const char *id)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->folders[i].line && strcmp(l->folders[i].id, id) == 0)
            return &l->folders[i];
    return NULL;
}

static struct result_folder *find_folder(struct result_list *l, const char *folder)
{
    const json_t *at = json_object_get(l->at, folder);

    return at ? &l->folders[json_integer_value(at)] : NULL;
}

/* Copies of a folder have the job's id too: the second has the id ID~2 in the list, the third ID~3. */
static bool choose_id(char id[LISTED_ID], struct result_list *l, const char *of)
{
    const char *known = "abcdefghijklmnopqrstuvwxyz0123456789-";
    json_t *last;
    unsigned n;

    if (!of || !of[0] || strlen(of) >= JOB_ID_MAX || strspn(of, known) != strlen(of))
        return false;
    snprintf(id, LISTED_ID, "%s", of);
    last = json_object_get(l->ids, of);
    for (n = (unsigned)json_integer_value(last); json_object_get(l->ids, id);)
        snprintf(id, LISTED_ID, "%.*s~%u", JOB_ID_MAX, of, ++n);
    if (last)
        json_integer_set(last, n);
    return json_object_set_new(l->ids, id, json_integer(1)) == 0;
}

static bool is_file(int dir, const char *path, struct stat *st)
{
    return fstatat(dir, path, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st->st_mode);
}

/* Sets "values" to the last values of the user's own metrics, if the file of them is short enough to be read
 * for a list. */
static void add_values(json_t *line, const char *folder, int dir)
{
    json_t *all = NULL, *some = json_object(), *v;
    struct err ignored;
    const char *name;
    struct stat st;

    if (is_file(dir, "records/metrics.csv", &st) && st.st_size <= METRICS_BYTES)
        compare_last_metrics(&all, folder, &ignored);
    json_object_foreach(all, name, v) if (json_object_size(some) < COMPARE_METRICS)
        json_object_set(some, name, v);
    if (json_object_size(some) > 0)
        json_object_set(line, "values", some);
    json_decref(some);
    json_decref(all);
}

static void read_folder(struct result_folder *b, struct result_list *l, int dir, const char *sweep)
{
    enum job_state state;
    struct err why;
    json_t *run = NULL;

    drop_line(l, b);
    if (untrusted_json(&run, dir, "run.json", RUN_JSON_MAX, &why) < 0) {
        if (why.code == ERR_IO || why.code == ERR_NOMEM)
            b->inode = 0; /* the next scan tries again */
        return;
    }
    if (choose_id(b->id, l, shown_text(run, "id"))) {
        b->is_settled = shown_text(run, "state") && job_state_parse(&state, shown_text(run, "state")) &&
                        job_state_is_terminal(state);
        b->line = document_line(run, b->id, b->folder, false);
        if (!b->line)
            json_object_del(l->ids, b->id);
        else if (sweep)
            json_object_set_new(b->line, "sweep", json_text(sweep, NAME_MAX));
        if (b->line)
            add_values(b->line, b->folder, dir);
    }
    json_decref(run);
}

static int no_memory(struct err *e)
{
    return err_set(e, ERR_NOMEM, "no memory for the list of results");
}

int result_list_add(struct result_list *l, const char *folder, struct err *e)
{
    struct result_folder *moved = realloc(l->folders, (l->n + 1) * sizeof *moved);

    if (!moved)
        return no_memory(e);
    l->folders = moved;
    l->folders[l->n] = (struct result_folder){.folder = strdup(folder)};
    if (!l->folders[l->n].folder ||
        json_object_set_new_nocheck(l->at, folder, json_integer((json_int_t)l->n)) < 0) {
        free(l->folders[l->n].folder);
        return no_memory(e);
    }
    l->n++;
    return 0;
}

/* Adds or updates the folder, if it has a run.json. `sweep`: the name of its sweep; NULL: none. */
static int look_at_folder(struct result_list *l, int dir, const char *path, const char *sweep,
                          bool *is_result, struct err *e)
{
    struct stat st;
    struct result_folder *b;

    *is_result = is_file(dir, "run.json", &st);
    if (!*is_result)
        return 0;
    b = find_folder(l, path);
    if (!b) {
        if (l->n == RESULT_LIST_MAX)
            return 0;
        if (result_list_add(l, path, e) < 0)
            return e->code;
        b = &l->folders[l->n - 1];
    } else if (b->inode == st.st_ino && b->bytes == st.st_size && b->changed.tv_sec == st.st_mtim.tv_sec &&
               b->changed.tv_nsec == st.st_mtim.tv_nsec) {
        b->is_seen = true;
        return 0;
    }
    b->is_seen = true;
    b->inode = st.st_ino;
    b->bytes = st.st_size;
    b->changed = st.st_mtim;
    read_folder(b, l, dir, sweep);
    l->version++;
    return 0;
}

/* Has the folder one of the files of results? Two fstatat() cost less than opening it, and most folders may
 * have none. */
static bool may_have_results(int dir, const char *name)
{
    static const char *const files[] = {"run.json", "sweep.json"};
    char path[NAME_MAX + 16];
    struct stat st;

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (snprintf(path, sizeof path, "%s/%s", name, files[i]) < (int)sizeof path &&
            is_file(dir, path, &st))
            return true;
    return false;
}

/* Scans a folder and its subfolders. Subfolders of a folder with results are that job's. */
static int scan_folder(struct result_list *l, int dir, const char *path, int depth, const char *sweep,
                       struct err *e)
{
    char below[PATH_MAX];
    struct stat st;
    struct err why;
    bool is_result;
    char **names;
    int rc = look_at_folder(l, dir, path, sweep, &is_result, e);
    size_t n;
    int sub;

    if (rc == 0 && !is_result && !sweep && is_file(dir, "sweep.json", &st)) {
        sweep = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
        depth = DEPTH_OF_SWEEP;
    }
    if (rc < 0 || is_result || depth == 0)
        return rc;
    if (untrusted_list(&names, &n, dir, RESULT_LIST_MAX, &why) < 0)
        l->is_partial = true;
    for (size_t i = 0; i < n && rc == 0 && ++l->n_looked_at <= RESULT_LIST_LOOKED_AT; i++) {
        if (snprintf(below, sizeof below, "%s/%s", path, names[i]) >= (int)sizeof below ||
            (depth == 1 && !may_have_results(dir, names[i])))
            continue;
        if (untrusted_enter(&sub, dir, names[i], &why) == 0) {
            rc = scan_folder(l, sub, below, depth - 1, sweep, e);
            close(sub);
        } else if (why.code != ERR_NOT_FOUND) {
            l->is_partial = true;
        }
    }
    untrusted_list_free(names, n);
    return rc;
}

/* Scans one of the folders that the user named. */
static int scan_root(struct result_list *l, const char *root, struct err *e)
{
    char path[PATH_MAX]; /* without slashes at its end, which names would be appended to */
    size_t len = strlen(root);
    struct err why;
    int dir, rc;

    while (len > 1 && root[len - 1] == '/')
        len--;
    if (len >= sizeof path)
        return err_set(e, ERR_USAGE, "%.100s...: the path is too long", root);
    memcpy(path, root, len);
    path[len] = '\0';
    if (untrusted_open(&dir, path, &why) < 0) {
        l->is_partial |= why.code != ERR_NOT_FOUND;
        return 0;
    }
    rc = scan_folder(l, dir, path, DEPTH, NULL, e);
    close(dir);
    return rc;
}

/* Drops the folders that the scan has not seen. */
static void drop_gone(struct result_list *l)
{
    size_t kept = 0;

    for (size_t i = 0; i < l->n; i++) {
        if (!l->folders[i].is_seen && !l->is_partial) {
            json_object_del(l->at, l->folders[i].folder);
            clear_folder(l, &l->folders[i]);
            continue;
        }
        if (kept < i) {
            l->folders[kept] = l->folders[i];
            json_integer_set(json_object_get(l->at, l->folders[kept].folder), (json_int_t)kept);
        }
        kept++;
    }
    l->version += kept < l->n;
    l->n = kept;
}

int result_list_scan(struct result_list *l, struct err *e)
{
    int rc = 0;

    l->is_partial = false;
    if ((!l->ids && !(l->ids = json_object())) || (!l->at && !(l->at = json_object())))
        return no_memory(e);
    for (size_t i = 0; i < l->n; i++)
        l->folders[i].is_seen = false;
    l->n_looked_at = 0;
    for (size_t i = 0; i < l->n_roots && rc == 0; i++)
        rc = scan_root(l, l->roots[i], e);
    drop_gone(l);
    return rc;
}
