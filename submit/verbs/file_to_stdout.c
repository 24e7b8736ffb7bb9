#include "submit/verbs/file_to_stdout.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "submit/options/options_table.h"

enum { COPIED_AT_ONCE = 1 << 16, WRITES_A_FILE = FOR_MODEL | FOR_SNAPSHOT | FOR_PREDICT | FOR_PLOT };

static int refuse_option(const struct args_option *t, struct err *e)
{
    char name[ARGS_NAME];

    args_name(name, t);
    if (!strstr(t->value, "FILE"))
        err_set(e, ERR_USAGE, "--%s -: a folder is needed, and neither standard input nor output is one",
                name);
    else if (t->group == RESULTS)
        err_set(e, ERR_USAGE, "--%s -: standard output has the job's results; name a file", name);
    else
        err_set(e, ERR_USAGE, "--%s -: nothing is read from standard input; name a file", name);
    return err_hint(e, "What is called \"-\" is ./-");
}

/* The value of an option that is a path; NULL: it is none, or not of this verb. */
static char *path_at(struct options *o, unsigned verb, const struct args_option *t)
{
    bool is_trace = t->offset == offsetof(struct options, trace);

    return t->verbs & verb && (t->kind == ARGS_PATH || is_trace) ? (char *)o + t->offset : NULL;
}

/* *at: the "-" that is standard output; NULL: none. */
static int find_dash(char **at, struct options *o, unsigned verb, struct err *e)
{
    const struct args_option *t = options_table.options;

    *at = NULL;
    for (size_t i = 0; i < (size_t)options_table.n; i++) {
        char *path = path_at(o, verb, &t[i]);

        if (!path || strcmp(path, "-") != 0)
            continue;
        if (!(verb & WRITES_A_FILE) || t[i].group != RESULTS || !strstr(t[i].value, "FILE"))
            return refuse_option(&t[i], e);
        if (*at || o->json)
            return err_set(e, ERR_USAGE, "%s: only one of them can be on standard output",
                           *at ? "--png - and --svg -" : "--json, and - as the file to write");
        *at = path;
    }
    return 0;
}

int file_to_stdout_begin(struct file_to_stdout *f, struct options *o, unsigned verb, struct err *e)
{
    char *at;

    f->path[0] = '\0';
    if (find_dash(&at, o, verb, e) < 0)
        return e->code;
    if (!at)
        return 0;
    if (temp_open(&f->folder, e) < 0)
        return e->code;
    if (file_join(f->path, sizeof f->path, f->folder.path, "output", e) < 0) {
        temp_close(&f->folder);
        return e->code;
    }
    snprintf(at, PATH_MAX, "%s", f->path);
    o->is_to_stdout = true;
    fflush(stdout);
    f->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    return 0;
}

/* output_finish() reports writes that fail. */
static int copy_out(const char *path, struct err *e)
{
    char bytes[COPIED_AT_ONCE];
    FILE *in = fopen(path, "re");
    size_t n;
    int rc;

    if (!in)
        return err_errno(e, ERR_IO, "%s", path);
    while ((n = fread(bytes, 1, sizeof bytes, in)) > 0 && fwrite(bytes, 1, n, stdout) == n)
        ;
    rc = ferror(in) ? err_errno(e, ERR_IO, "%s", path) : 0;
    fclose(in);
    return rc;
}

int file_to_stdout_end(struct file_to_stdout *f, int rc, struct err *e)
{
    if (!f->path[0])
        return rc;
    fflush(stdout);
    if (f->fd >= 0) {
        dup2(f->fd, STDOUT_FILENO);
        close(f->fd);
    } else
        close(STDOUT_FILENO); /* as it was */
    if (rc == 0)
        rc = copy_out(f->path, e);
    temp_close(&f->folder);
    return rc;
}
