#include <string.h>

#include "shared/base/args.h"

enum { LEFT = 36, RIGHT = 64, CHOICES_MAX = 24 /* longer lists follow the help text */ };

/* Breaks a text between words, at most `room` characters to a line. Returns the characters of this line. */
static size_t line_of(const char *text, size_t room)
{
    size_t n = strlen(text), end = room;

    if (n <= room)
        return n;
    while (end > 0 && text[end] != ' ')
        end--;
    return end ? end : strcspn(text, " ");
}

/* "a|b|c" as "a, b, c", which can be broken between lines. */
static void add_choices(char *text, size_t size, const char *choices)
{
    size_t n = strlen(text);

    for (const char *c = choices; *c && n + 3 < size; c++) {
        text[n++] = *c == '|' ? ',' : *c;
        if (*c == '|')
            text[n++] = ' ';
    }
    text[n] = '\0';
}

void args_wrap(FILE *f, const char *text, int column, size_t width)
{
    size_t n;

    for (n = line_of(text, width); text[n]; n = line_of(text, width)) {
        fprintf(f, "%.*s\n%*s", (int)n, text, column, "");
        text += n + 1;
    }
    fprintf(f, "%s\n", text);
}

/* "--learn_rate, --lr" */
static void add_names(char *text, size_t size, const char *names)
{
    for (const char *p = names; *p; p += *p == '|') {
        size_t n = strcspn(p, "|"), at = strlen(text);

        snprintf(text + at, size - at, "%s--%.*s", p > names ? ", " : "", (int)n, p);
        p += n;
    }
}

static void print_option(FILE *f, const struct args_option *t, const void *defaults)
{
    bool is_long = (t->kind == ARGS_CHOICE_TEXT || t->kind == ARGS_CHOICE) && strlen(t->value) > CHOICES_MAX;
    char left[128], standing[128], right[1024];
    size_t n;

    snprintf(left, sizeof left, "  %s%.1s%s", t->shorts[0] ? "-" : " ", t->shorts[0] ? t->shorts : " ",
             t->shorts[0] ? ", " : "  ");
    add_names(left, sizeof left, t->names);
    n = strlen(left);
    snprintf(left + n, sizeof left - n, "%s%s", t->value ? " " : "",
             is_long    ? "CHOICE"
             : t->value ? t->value
                        : "");
    snprintf(right, sizeof right, "%s%s", t->help, is_long ? ": " : "");
    if (is_long)
        add_choices(right, sizeof right, t->value);
    n = strlen(right);
    if (defaults && n < sizeof right && args_default(standing, sizeof standing, t, defaults))
        snprintf(right + n, sizeof right - n, " (default %s)", standing);
    if (strlen(left) > LEFT)
        fprintf(f, "%s\n%*s", left, LEFT + 1, "");
    else
        fprintf(f, "%-*s ", LEFT, left);
    args_wrap(f, right, LEFT + 1, RIGHT);
}

void args_help(FILE *f, const struct args *a, unsigned verb, const void *defaults)
{
    for (int g = 0; a->groups[g]; g++) {
        bool is_named = false;

        for (int i = 0; i < a->n; i++) {
            const struct args_option *t = &a->options[i];

            if (!(t->verbs & verb) || t->group != g)
                continue;
            if (!is_named)
                fprintf(f, "\n%s:\n", a->groups[g]);
            is_named = true;
            print_option(f, t, defaults);
        }
    }
}
