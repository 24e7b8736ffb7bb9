/* The log of a job: the lines of its nodes' logs and of job_submit's, file by file. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "submit/browse/documents.h"
#include "submit/files/untrusted_folder.h"

/* LOG_MOST bytes at the end of each log are read, LOGS_MOST of all together. */
enum { LOG_MOST = 4 << 20, LOGS_MOST = 256 << 20, FILES_MOST = 5000, LINE_MOST = 4096, LIMIT_MOST = 10000 };

struct log_reading {
    const struct log_query *q;
    size_t n, bytes;   /* lines and bytes so far */
    size_t line;       /* the number of the line in its file */
    size_t skip;       /* the first lines of the file that are left out, because they are before `after` */
    size_t n_matching; /* lines so far that match the query */
    size_t n_skipped;  /* of these the first are left out */
    json_t *lines;     /* NULL: lines are only counted */
    bool is_full;
    bool has_begun; /* the file that `after` names has been reached */
    char last[40];  /* "NODE:N" of the last line in `lines` */
};

/* out: "submit", or the node's number. False: the file is no log. */
static bool name_node(char out[16], const char *file)
{
    size_t len = strlen(file);
    long number;
    char *end;

    if (len < 5 || strcmp(file + len - 4, ".log") != 0)
        return false;
    if (strcmp(file, "submit.log") == 0) {
        strcpy(out, "submit");
        return true;
    }
    if (strncmp(file, "worker-", 7) != 0 && strncmp(file, "ps-", 3) != 0)
        return false;
    number = strtol(strchr(file, '-') + 1, &end, 10);
    if (strcmp(end, ".log") != 0 || number < 0 || number > 1000000)
        return false;
    snprintf(out, 16, "%ld", file[0] == 'p' ? -2 - number : number);
    return true;
}

static bool begins_with(const char *line, size_t len, const char *with)
{
    return len >= strlen(with) && strncasecmp(line, with, strlen(with)) == 0;
}

static const char *level_of(const char *line, size_t len)
{
    if (begins_with(line, len, "error") || begins_with(line, len, "fatal"))
        return "error";
    return begins_with(line, len, "warn") ? "warn" : begins_with(line, len, "debug") ? "debug" : "info";
}

/* Only job_submit's lines have a time: "INFO User Submit@12:29:01 : text". */
static json_t *time_of(const char *line, size_t len)
{
    const char *at = memchr(line, '@', len < 40 ? len : 40);

    if (!at || len - (size_t)(at - line) < 12 || at[3] != ':' || at[6] != ':' || at[9] != ' ')
        return json_null();
    return json_text(at + 1, 8);
}

static bool has_text(const char *line, size_t len, const char *q)
{
    size_t n = strlen(q);

    for (size_t i = 0; i + n <= len; i++)
        if (strncasecmp(line + i, q, n) == 0)
            return true;
    return false;
}

static void add_line(struct log_reading *g, const char *node, const char *line, size_t len)
{
    const struct log_query *q = g->q;
    const char *level = level_of(line, len);
    json_t *number;

    g->n++;
    if (++g->line <= g->skip || g->is_full || (q->level && strcmp(q->level, level) != 0) ||
        (q->q && !has_text(line, len, q->q)))
        return;
    if (g->n_matching++ < g->n_skipped || !g->lines)
        return;
    if (json_array_size(g->lines) == q->limit) {
        g->is_full = true;
        return;
    }
    number = strcmp(node, "submit") == 0 ? json_null() : json_integer(atoi(node));
    json_array_append_new(g->lines, json_pack("{s:I, s:o, s:s, s:o, s:o}", "n", (json_int_t)g->line, "time",
                                              time_of(line, len), "level", level, "node", number, "text",
                                              json_text(line, len < LINE_MOST ? len : LINE_MOST)));
    snprintf(g->last, sizeof g->last, "%s:%zu", node, g->line);
}

/* The number of lines of this node's log that `after` leaves out: all lines of files before the one it
 * names. */
static size_t lines_before(struct log_reading *g, const char *node)
{
    const char *after = g->q->after;
    size_t len = after ? strcspn(after, ":") : 0;

    if (!after || g->has_begun)
        return 0;
    if (strlen(node) != len || memcmp(after, node, len) != 0)
        return SIZE_MAX;
    g->has_begun = true;
    return strtoull(after + len + 1, NULL, 10);
}

static void add_file(struct log_reading *g, int dir, const char *path, const char *node)
{
    struct err ignored;
    char *text;
    size_t len;

    g->line = 0;
    g->skip = lines_before(g, node);
    if (g->bytes > LOGS_MOST || untrusted_text(&text, &len, dir, path, LOG_MOST, &ignored) < 0)
        return;
    g->bytes += len;
    utf8_clean(text, len, true);
    for (size_t at = 0; at < len;) {
        const char *feed = memchr(text + at, '\n', len - at);
        size_t n = feed ? (size_t)(feed - text) - at : len - at;

        add_line(g, node, text + at, n);
        at += n + 1;
    }
    free(text);
}

static bool matches_node(const struct log_query *q, const char *node)
{
    return !q->node || strcmp(q->node, node) == 0;
}

/* The logs of a folder of results. */
static void add_logs(struct log_reading *g, const struct shown *s)
{
    struct err ignored;
    char node[16];
    char **names;
    size_t n;
    int dir;

    if (s->dir < 0 || untrusted_enter(&dir, s->dir, "logs", &ignored) < 0)
        return;
    untrusted_list(&names, &n, dir, FILES_MOST, &ignored);
    for (size_t i = 0; i < n; i++)
        if (name_node(node, names[i]) && matches_node(g->q, node))
            add_file(g, dir, names[i], node);
    untrusted_list_free(names, n);
    close(dir);
}

/* The logs of a running job, each in its node's folder. */
static void add_live_logs(struct log_reading *g, const struct shown *s)
{
    const json_t *nodes = json_object_get(s->run, "nodes"), *o;
    char folder[SHOWN_FOLDER];
    char path[64];
    char node[16];
    size_t i;

    json_array_foreach(nodes, i, o)
    {
        snprintf(node, sizeof node, "%d", (int)json_number_at(o, "node", 0));
        shown_live_folder(folder, o);
        snprintf(path, sizeof path, "%s/%s", folder, artifact_name(ARTIFACT_LOG));
        if (s->dir >= 0 && matches_node(g->q, node))
            add_file(g, s->dir, path, node);
    }
}

static void add_lines(struct log_reading *g, const struct shown *s)
{
    if (s->is_live)
        add_live_logs(g, s);
    else
        add_logs(g, s);
}

static bool is_after(const char *after)
{
    const char *number = strchr(after, ':');

    return number && number[1] && strspn(number + 1, "0123456789") == strlen(number + 1);
}

int document_log(json_t **out, const struct shown *s, const struct log_query *q, struct err *e)
{
    struct log_query bounded = *q;
    struct log_reading g = {.q = &bounded}, counted = {.q = &bounded};

    if (q->after && !is_after(q->after))
        return err_set(e, ERR_USAGE, "after=%.40s is not the \"next\" of an earlier answer", q->after);
    bounded.limit = q->limit > LIMIT_MOST ? LIMIT_MOST : q->limit > 0 ? q->limit : 500;
    if (q->is_tail) {
        add_lines(&counted, s);
        g.n_skipped = counted.n_matching > bounded.limit ? counted.n_matching - bounded.limit : 0;
    }
    g.lines = json_array();
    add_lines(&g, s);
    *out = json_pack("{s:o, s:o, s:I}", "lines", g.lines, "next",
                     g.is_full && !q->is_tail ? json_string(g.last) : json_null(), "total", (json_int_t)g.n);
    return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for the log");
}
