#include "submit/compat/classic/classic_file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "submit/results/run.h"
#include "submit/terminal/console.h"

static const char *moment(char *out, size_t size, const char *format, double wall)
{
    time_t t = (time_t)wall;
    struct tm tm;

    localtime_r(&t, &tm);
    if (strftime(out, size, format, &tm) == 0)
        out[0] = '\0';
    return out;
}

const json_t *classic_node(const struct classic *c, int node)
{
    return json_array_get(json_object_get(c->run, "nodes"), (size_t)node);
}

double classic_started(const struct classic *c, int node)
{
    const char *text = json_string_value(json_object_get(classic_node(c, node), "started_at"));
    double t;

    return text && clock_parse(&t, text) ? t : c->s->submitted_at;
}

/* Writes the value of a name in braces. */
static void value(char *out, size_t size, const struct classic *c, const char *name, int node, double wall,
                  const char *epoch)
{
    const struct settings *set = &c->s->settings;
    const struct {
        const char *name;
        int number;
    } numbers[] = {{"{n}", set->node_count}, {"{r}", set->redundancy}, {"{id}", node}};

    out[0] = '\0';
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0)
            snprintf(out, size, "%d", numbers[i].number);
    if (strcmp(name, "{epoch}") == 0)
        snprintf(out, size, "%s", epoch);
    if (strcmp(name, "{name}") == 0)
        snprintf(out, size, "%s", set->name);
    if (strcmp(name, "{time}") == 0)
        moment(out, size, "%H-%M-%S", wall);
    if (strcmp(name, "{date}") == 0)
        moment(out, size, "%Y-%m-%d %H%M", wall);
    if (strcmp(name, "{codec}") == 0)
        snprintf(out, size, "%s", c->letters);
}

void classic_fill(char out[CLASSIC_NAME], const char *form, const struct classic *c, int node, double wall,
                  const char *epoch)
{
    char name[16], text[80];
    size_t n = 0;

    while (*form && n < CLASSIC_NAME - 1) {
        size_t len = *form == '{' ? strcspn(form, "}") + 1 : 0;

        if (len == 0) {
            out[n++] = *form++;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)len, form);
        value(text, sizeof text, c, name, node, wall, epoch);
        n += (size_t)snprintf(out + n, CLASSIC_NAME - n, "%s", text);
        form += len;
    }
    out[n < CLASSIC_NAME ? n : CLASSIC_NAME - 1] = '\0';
}

int classic_turn(struct classic *c, bool *is_new, const char *form, int node, struct err *e)
{
    char name[CLASSIC_NAME];

    *is_new = false;
    if (c->f && c->node == node)
        return 0;
    classic_fill(name, form, c, node, classic_started(c, node), "");
    if (appender_file(&c->files, &c->f, is_new, name, e) < 0)
        return e->code;
    if (*is_new)
        console_info("Restoring data (%s) from %d.", name, node);
    c->is_begun[node] = true;
    c->node = node;
    return 0;
}

struct of_worker {
    struct classic *c;
    classic_use *use;
    void *with;
    size_t node; /* the column */
};

static int use_row(void *with, const struct record_text *cells, struct err *e)
{
    const struct of_worker *w = with;
    long node = strtol(cells[w->node].text, NULL, 10);

    if (!isdigit((unsigned char)cells[w->node].text[0]) || node >= w->c->s->settings.node_count)
        return 0;
    return w->use(w->c, (int)node, cells, w->with, e);
}

int classic_each_row(struct classic *c, enum artifact_id id, classic_use *use, void *with, struct err *e)
{
    struct of_worker w = {c, use, with, artifact_column(&artifacts[id], "node")};

    return run_rows(c->s->folder, &artifacts[id], use_row, &w, e);
}
