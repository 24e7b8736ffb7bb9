#include <string.h>

#include "shared/args.h"

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

static void print_option(FILE *f, const struct args_option *t, const void *defaults)
{
    bool is_long = (t->kind == ARGS_CHOICE_TEXT || t->kind == ARGS_CHOICE) && strlen(t->value) > CHOICES_MAX;
    char name[ARGS_NAME], left[128], standing[128], right[768];
    const char *p = right;
    size_t n;

    args_name(name, t);
    snprintf(left, sizeof left, "  %s%.1s%s--%s%s%s", t->shorts[0] ? "-" : " ",
             t->shorts[0] ? t->shorts : " ", t->shorts[0] ? ", " : "  ", name, t->value ? " " : "",
             is_long    ? "CHOICE"
             : t->value ? t->value
                        : "");
    n = (size_t)snprintf(right, sizeof right, "%s%s%s", t->help, is_long ? ": " : "",
                         is_long ? t->value : "");
    if (defaults && n < sizeof right && args_default(standing, sizeof standing, t, defaults))
        snprintf(right + n, sizeof right - n, " (default %s)", standing);
    if (strlen(left) > LEFT)
        fprintf(f, "%s\n%*s", left, LEFT + 1, "");
    else
        fprintf(f, "%-*s ", LEFT, left);
    for (n = line_of(p, RIGHT); p[n]; n = line_of(p, RIGHT)) {
        fprintf(f, "%.*s\n%*s", (int)n, p, LEFT + 1, "");
        p += n + 1;
    }
    fprintf(f, "%s\n", p);
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
