#include "submit/options/options_words.h"

#include <stdlib.h>
#include <string.h>

static const char spaces[] = " \t\n";

/* Copies the next word to *to, with its zero, and moves both on. NULL: there is none, or, with an error, a
 * quotation mark has no other one. */
static char *take_word(char **from, char **to, struct err *e)
{
    char *word = *to, quote = '\0', *in = *from + strspn(*from, spaces), *out = *to;

    if (!*in)
        return NULL;
    for (; *in && (quote || !strchr(spaces, *in)); in++) {
        if (quote ? *in == quote : *in == '\'' || *in == '"')
            quote = quote ? '\0' : *in;
        else if (*in == '\\' && quote != '\'' && in[1])
            *out++ = *++in;
        else
            *out++ = *in;
    }
    if (quote) {
        err_set(e, ERR_USAGE, OPTIONS_VARIABLE ": a quotation mark, %c, has no other one", quote);
        return NULL;
    }
    *from = in + (*in != '\0');
    *out = '\0';
    *to = out + 1;
    return word;
}

int options_add_words(char ***out, char **words, int *argc, char **argv, const char *text, struct err *e)
{
    char *from, *to, *word;
    int n = 1;

    *e = (struct err){0};
    /* A word has a character at least, and one between it and the next. */
    *out = calloc((size_t)*argc + strlen(text) / 2 + 2, sizeof **out);
    *words = from = to = strdup(text);
    if (!*out || !*words) {
        free(*out);
        free(*words);
        return err_set(e, ERR_NOMEM, "no memory for the options in " OPTIONS_VARIABLE);
    }
    (*out)[0] = argv[0];
    while ((word = take_word(&from, &to, e)) != NULL)
        (*out)[n++] = word;
    memcpy(*out + n, argv + 1, ((size_t)*argc - 1) * sizeof **out);
    *argc += n - 1;
    if (e->code == 0)
        return 0;
    free(*out);
    free(*words);
    return e->code;
}
