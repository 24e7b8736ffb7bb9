#include "shared/base/args.h"

#include <assert.h>
#include <ctype.h>
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/choice.h"
#include "shared/base/number.h"

/* What getopt_long returns for a long option: LONG + its index in the table, above all short options. */
enum { LONG = 256 };

struct getopt_tables {
    struct option longs[ARGS_MAX + 1];
    char names[ARGS_MAX][ARGS_NAME];
    char shorts[2 * ARGS_MAX];
};

void args_name(char out[ARGS_NAME], const struct args_option *t)
{
    snprintf(out, ARGS_NAME, "%.*s", (int)strcspn(t->names, "|"), t->names);
}

static bool takes_value(const struct args_option *t)
{
    return t->kind != ARGS_FLAG && t->kind != ARGS_COUNT;
}

static void fold_name(char *name)
{
    for (; *name && *name != '='; name++)
        if (*name == '_')
            *name = '-';
}

/* The options of a verb, for getopt_long. A leading '-' makes it return operands in order. */
static void build_tables(struct getopt_tables *k, const struct args *a, uint64_t verb)
{
    size_t n = 0, n_shorts = 0;

    k->shorts[n_shorts++] = '-';
    k->shorts[n_shorts++] = ':';
    for (int i = 0; i < a->n; i++) {
        const struct args_option *t = &a->options[i];

        for (const char *p = t->names; (t->verbs & verb) && p; p = strchr(p, '|')) {
            assert(n < ARGS_MAX);
            p += *p == '|';
            snprintf(k->names[n], ARGS_NAME, "%.*s", (int)strcspn(p, "|"), p);
            fold_name(k->names[n]);
            k->longs[n] = (struct option){k->names[n], takes_value(t), NULL, LONG + i};
            n++;
        }
        for (const char *s = t->shorts; (t->verbs & verb) && *s; s++) {
            assert(n_shorts + 3 <= sizeof k->shorts);
            k->shorts[n_shorts++] = *s;
            if (takes_value(t))
                k->shorts[n_shorts++] = ':';
        }
    }
    k->longs[n] = (struct option){0};
    k->shorts[n_shorts] = '\0';
}

static bool has_long(const struct getopt_tables *k, const char *name)
{
    for (const struct option *l = k->longs; l->name; l++)
        if (strcmp(l->name, name) == 0)
            return true;
    return false;
}

static int other_verbs_option(const struct args *a, const struct getopt_tables *any, const char *name,
                              struct err *e)
{
    const struct option *l = any->longs;

    err_set(e, ERR_USAGE, "--%s is for other verbs", name);
    while (strcmp(l->name, name) != 0)
        l++;
    return a->options[l->val - LONG].elsewhere ? err_hint(e, "%s", a->options[l->val - LONG].elsewhere) : 0;
}

/* The hint has the option's first name, as --help does. */
static int unknown_option(const struct args *a, const struct getopt_tables *k, const char *name,
                          struct err *e)
{
    const char *choices[ARGS_MAX + 1], *near;
    char first[ARGS_NAME];
    struct getopt_tables any;
    int n = 0;

    for (; k->longs[n].name; n++)
        choices[n] = k->longs[n].name;
    choices[n] = NULL;
    build_tables(&any, a, ~0U);
    err_set(e, ERR_USAGE, "unknown option --%s", name);
    if (has_long(&any, name) && other_verbs_option(a, &any, name, e) < 0)
        return e->code;
    near = choice_near(name, choices);
    if (!near)
        return err_hint(e, "%s", a->where);
    for (n = 0; k->longs[n].name != near;)
        n++;
    args_name(first, &a->options[k->longs[n].val - LONG]);
    return err_hint(e, "Did you mean --%s?", first);
}

/* getopt_long accepts abbreviations and does not treat '_' as '-', so long options are checked here first. */
static int prepare_long_option(const struct args *a, const struct getopt_tables *k, char *text, struct err *e)
{
    char name[ARGS_NAME];

    if (strncmp(text, "--", 2) != 0 || !text[2])
        return 0;
    fold_name(text + 2);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
    return has_long(k, name) ? 0 : unknown_option(a, k, name, e);
}

static int set_number(const struct args_option *t, const char *name, const char *text, void *out,
                      struct err *e)
{
    char *end;
    double d;

    d = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)text[0]) || strpbrk(text, "xX") || d != d)
        return err_set(e, ERR_USAGE, "--%s: \"%s\" is not a number", name, text);
    if (t->kind != ARGS_NUMBER && strcspn(text, ".eEiI") < strlen(text))
        return err_set(e, ERR_USAGE, "--%s: \"%s\" is not an integer", name, text);
    if ((t->min != 0 || t->max != 0) && !(d >= t->min && d <= t->max))
        return err_set(e, ERR_USAGE, "--%s: %s is not between %.16g and %.16g", name, text, t->min, t->max);
    if (t->kind == ARGS_INT)
        *(int *)out = (int)d;
    else if (t->kind == ARGS_U64)
        *(uint64_t *)out = (uint64_t)strtoull(text, NULL, 10);
    else
        *(double *)out = d;
    return 0;
}

static int set_text(const struct args_option *t, const char *name, const char *text, char *out, struct err *e)
{
    if (!text[0] || strlen(text) >= t->size)
        return err_set(e, ERR_USAGE, text[0] ? "--%s: longer than %zu characters" : "--%s: empty", name,
                       t->size - 1);
    strcpy(out, text);
    return 0;
}

static int hint_near(const char *list, const char *text, struct err *e)
{
    int n;
    const char *near = choice_near_in(list, text, &n);

    return near ? err_hint(e, "Did you mean %.*s?", n, near) : e->code;
}

static int set_choice(const struct args_option *t, const char *name, const char *text, void *out,
                      struct err *e)
{
    int place = choice_find(t->value, text);

    if (place < 0) {
        err_set(e, ERR_USAGE, "--%s: \"%s\" is not one of %s", name, text, t->value);
        return t->hint ? err_hint(e, "%s", t->hint) : hint_near(t->value, text, e);
    }
    if (t->kind == ARGS_CHOICE_TEXT)
        return set_text(t, name, text, out, e);
    *(int *)out = place;
    return 0;
}

static int add_to_list(const struct args_option *t, const char *name, const char *text, const char **list,
                       struct err *e)
{
    size_t n = 0;

    while (list[n])
        n++;
    if (n + 1 >= t->size / sizeof *list)
        return err_set(e, ERR_USAGE, "--%s: more than %zu of them", name, n);
    list[n] = text;
    return 0;
}

int args_set(const struct args_option *t, const char *value, void *out, struct err *e)
{
    void *at = (char *)out + t->offset;
    char name[ARGS_NAME];

    args_name(name, t);
    if (t->given)
        *((bool *)out + t->given) = true;
    switch (t->kind) {
    case ARGS_FLAG:
        *(bool *)at = true;
        return 0;
    case ARGS_COUNT:
        ++*(int *)at;
        return 0;
    case ARGS_INT:
    case ARGS_U64:
    case ARGS_NUMBER:
        return set_number(t, name, value, at, e);
    case ARGS_CHOICE_TEXT:
    case ARGS_CHOICE:
        return set_choice(t, name, value, at, e);
    case ARGS_LIST:
        return add_to_list(t, name, value, at, e);
    case ARGS_TEXT:
    case ARGS_PATH:
    case ARGS_NAME_OR_PATH:
        break;
    }
    return set_text(t, name, value, at, e);
}

static int add_operand(struct args_found *found, const char *text, struct err *e)
{
    if (found->n_operands == ARGS_OPERANDS)
        return err_set(e, ERR_USAGE, "more than %d operands", ARGS_OPERANDS);
    found->operands[found->n_operands++] = text;
    return 0;
}

/* `c`: what getopt_long has returned, or `optopt`. */
static const struct args_option *option_of(const struct args *a, uint64_t verb, int c)
{
    if (c >= LONG)
        return &a->options[c - LONG];
    for (int i = 0; i < a->n; i++)
        if ((a->options[i].verbs & verb) && strchr(a->options[i].shorts, c))
            return &a->options[i];
    return NULL;
}

/* The next word is the value of an option that needs one; an option that was meant to follow it is
 * refused. */
static int check_value(const struct getopt_tables *k, const struct args_option *t, int argc,
                       char *const *argv, struct err *e)
{
    const char *word = optind > 1 && optind <= argc ? argv[optind - 1] : "";
    char name[ARGS_NAME], other[ARGS_NAME];

    if (!takes_value(t) || optarg != word || strncmp(word, "--", 2) != 0)
        return 0;
    snprintf(other, sizeof other, "%s", word + 2);
    fold_name(other);
    if (!has_long(k, other))
        return 0;
    args_name(name, t);
    err_set(e, ERR_USAGE, "--%s needs a value, %s, before %s", name, t->value, word);
    return err_hint(e, "--%s=%s gives it that value.", name, word);
}

static int take_option(const struct args *a, uint64_t verb, int c, void *out, struct args_found *found,
                       struct err *e)
{
    const struct args_option *t = option_of(a, verb, c == ':' || c == '?' ? optopt : c);
    char name[ARGS_NAME];

    found->has_unknown = !t;
    if (!t)
        return err_set(e, ERR_USAGE, "unknown option -%c", optopt);
    args_name(name, t);
    if (c == '?')
        return err_set(e, ERR_USAGE, "--%s takes no value", name);
    if (c == ':')
        return err_set(e, ERR_USAGE, "--%s needs a value: %s", name, t->value);
    found->given[t - a->options] = true;
    return args_set(t, optarg, out, e);
}

int args_parse(const struct args *a, uint64_t verb, int argc, char **argv, void *out,
               struct args_found *found, struct err *e)
{
    struct getopt_tables k;
    int c = 0, rc = 0;

    build_tables(&k, a, verb);
    *found = (struct args_found){.n_operands = 0};
    opterr = 0;
    optind = 0; /* restarts getopt_long with these options */
    while (rc == 0 && c != -1) {
        int next = optind ? optind : 1;

        if (next < argc && prepare_long_option(a, &k, argv[next], e) < 0) {
            found->has_unknown = true;
            return e->code;
        }
        c = getopt_long(argc, argv, k.shorts, k.longs, NULL);
        if (c == 1)
            rc = add_operand(found, optarg, e);
        else if (c != -1 &&
                 (c == ':' || c == '?' || (rc = check_value(&k, option_of(a, verb, c), argc, argv, e)) == 0))
            rc = take_option(a, verb, c, out, found, e);
    }
    for (int i = optind; rc == 0 && i < argc; i++)
        rc = add_operand(found, argv[i], e);
    return rc;
}

void args_text(char *text, size_t size, const struct args_option *t, const void *from)
{
    const void *at = (const char *)from + t->offset;
    char number[NUMBER_TEXT_MAX];
    const char *choice;
    int n;

    switch (t->kind) {
    case ARGS_FLAG:
        snprintf(text, size, "%s", *(const bool *)at ? "yes" : "no");
        break;
    case ARGS_COUNT:
    case ARGS_INT:
        snprintf(text, size, "%d", *(const int *)at);
        break;
    case ARGS_CHOICE:
        choice = choice_at(t->value, *(const int *)at, &n);
        snprintf(text, size, "%.*s", n, choice);
        break;
    case ARGS_U64:
        snprintf(text, size, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case ARGS_NUMBER:
        snprintf(text, size, "%s", number_text(number, *(const double *)at));
        break;
    case ARGS_TEXT:
    case ARGS_PATH:
    case ARGS_NAME_OR_PATH:
    case ARGS_CHOICE_TEXT:
        snprintf(text, size, "%s", (const char *)at);
        break;
    case ARGS_LIST:
        snprintf(text, size, "%s", *(const char *const *)at ? *(const char *const *)at : "");
        break;
    }
}

bool args_default(char *text, size_t size, const struct args_option *t, const void *defaults)
{
    double v;

    if (t->kind == ARGS_FLAG || t->kind == ARGS_COUNT || t->kind == ARGS_LIST)
        return false;
    args_text(text, size, t, defaults);
    if (t->kind != ARGS_INT && t->kind != ARGS_U64 && t->kind != ARGS_NUMBER)
        return text[0] != '\0';
    v = strtod(text, NULL);
    return !(t->given && v == 0) && ((t->min == 0 && t->max == 0) || (v >= t->min && v <= t->max));
}

/* Columns of --help. A list of choices longer than CHOICES_MAX characters follows the help text. */
enum { LEFT = 36, RIGHT = 64, CHOICES_MAX = 24 };

/* Returns how many characters of the text go to the first line: at most `room`, whole words. A word longer
 * than that has a line of its own. */
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

void args_help(FILE *f, const struct args *a, uint64_t verb, const void *defaults)
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
