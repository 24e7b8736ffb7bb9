/* word_count -- how often each word is in a text, as map and reduce: each node counts the words of its
 * shard, and sends each count to the node that the word's hash names, which adds up the counts of its
 * words and writes them in the order of their bytes. With the argument `lower`, letters A to Z count as
 * a to z. Text has no zero byte: input with one is refused.
 *
 *     job_submit run --exec examples/executors/word_count.c --node_count 2 --data text/ -o counts -- lower
 *     sort counts/output/node-*.txt */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor.h"

struct word {
    const char *bytes; /* (n), in the shard or in a message */
    size_t n;
    unsigned long long count;
};

/* A hash table with open addressing; at most half of it is used. */
struct table {
    struct word *words; /* (size), a power of two; n 0: a free place */
    size_t size, n_used;
};

static uint64_t hash(const char *bytes, size_t n)
{
    uint64_t h = 14695981039346656037U; /* FNV-1a */

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)bytes[i]) * 1099511628211U;
    return h;
}

/* The word's place, or the free one where it belongs. */
static struct word *find(const struct table *t, const char *bytes, size_t n)
{
    size_t i = hash(bytes, n) & (t->size - 1);

    while (t->words[i].n && (t->words[i].n != n || memcmp(t->words[i].bytes, bytes, n) != 0))
        i = (i + 1) & (t->size - 1);
    return &t->words[i];
}

static bool grow(struct table *t)
{
    struct table larger = {.size = t->size ? 2 * t->size : 1024, .n_used = t->n_used};

    larger.words = calloc(larger.size, sizeof *larger.words);
    if (!larger.words)
        return false;
    for (size_t i = 0; i < t->size; i++)
        if (t->words[i].n)
            *find(&larger, t->words[i].bytes, t->words[i].n) = t->words[i];
    free(t->words);
    *t = larger;
    return true;
}

static bool add(struct table *t, const char *bytes, size_t n, unsigned long long count)
{
    struct word *w;

    if (2 * t->n_used >= t->size && !grow(t))
        return false;
    w = find(t, bytes, n);
    if (!w->n) {
        *w = (struct word){.bytes = bytes, .n = n};
        t->n_used++;
    }
    w->count += count;
    return true;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Counts the words of the shard; `text` is x->input, or a copy of it. */
static int map(struct executor *x, struct table *t, const char *text)
{
    size_t at = 0, begin, since = 0;

    while (at < x->n_input) {
        while (at < x->n_input && is_space(text[at]))
            at++;
        for (begin = at; at < x->n_input && !is_space(text[at]);)
            at++;
        if (at > begin && !add(t, text + begin, at - begin, 1))
            return x->host->fail(x, "no memory for %zu words", t->n_used + 1);
        if (at - since >= 1 << 20) { /* says that the node does not hang */
            int rc = x->host->progress(x, 90.0 * (double)at / (double)x->n_input);

            if (rc < 0)
                return rc;
            since = at;
        }
    }
    return 0;
}

/* Sends `to` the counts of its words: "COUNT WORD\n" each. */
static int send_counts(struct executor *x, const struct table *t, int to)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    int rc;

    if (!f)
        return x->host->fail(x, "no memory for a message");
    for (size_t i = 0; i < t->size; i++) {
        const struct word *w = &t->words[i];

        if (w->n && hash(w->bytes, w->n) % (uint64_t)x->n_nodes == (uint64_t)to)
            fprintf(f, "%llu %.*s\n", w->count, (int)w->n, w->bytes);
    }
    rc = fclose(f) == 0 ? x->host->send(x, to, text, n) : x->host->fail(x, "no memory for a message");
    free(text);
    return rc;
}

/* Adds the counts of node `from`, whose message is kept in *copy: the table points into it. */
static int add_counts(struct executor *x, struct table *t, int from, char **copy)
{
    struct executor_bytes message;
    int rc = x->host->receive(x, from, &message);
    const char *at, *end;

    if (rc < 0)
        return rc;
    *copy = malloc(message.n + 1);
    if (!*copy)
        return x->host->fail(x, "no memory for a message");
    memcpy(*copy, message.bytes, message.n);
    (*copy)[message.n] = '\0';
    for (at = *copy, end = *copy + message.n; at < end;) {
        char *word;
        unsigned long long count = strtoull(at, &word, 10);
        const char *lf = memchr(word, '\n', (size_t)(end - word));

        if (*word != ' ' || !lf || lf == word + 1)
            return x->host->fail(x, "node %d sent no list of words", from);
        if (!add(t, word + 1, (size_t)(lf - word) - 1, count))
            return x->host->fail(x, "no memory for %zu words", t->n_used + 1);
        at = lf + 1;
    }
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    const struct word *v = a, *w = b;
    int order = memcmp(v->bytes, w->bytes, v->n < w->n ? v->n : w->n);

    return order ? order : (v->n > w->n) - (v->n < w->n);
}

/* Writes the words of this node. The table is no table afterwards. */
static int write_counts(struct executor *x, struct table *t)
{
    size_t n = 0;
    int rc = 0;

    for (size_t i = 0; i < t->size; i++)
        if (t->words[i].n &&
            hash(t->words[i].bytes, t->words[i].n) % (uint64_t)x->n_nodes == (uint64_t)x->node)
            t->words[n++] = t->words[i];
    if (n > 0)
        qsort(t->words, n, sizeof *t->words, by_bytes);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = x->host->print(x, "%.*s %llu\n", (int)t->words[i].n, t->words[i].bytes, t->words[i].count);
    return rc;
}

static char *lower(const char *text, size_t n)
{
    char *copy = malloc(n + 1);

    for (size_t i = 0; copy && i < n; i++)
        copy[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] - 'A' + 'a' : text[i]);
    return copy;
}

static int count(struct executor *x, const char *text)
{
    char **copies = calloc((size_t)x->n_nodes, sizeof *copies);
    struct table t = {0};
    int rc = copies ? map(x, &t, text) : x->host->fail(x, "no memory");

    for (int d = 1; d < x->n_nodes && rc == 0; d++)
        rc = send_counts(x, &t, (x->node + d) % x->n_nodes);
    for (int d = 1; d < x->n_nodes && rc == 0; d++) {
        int from = (x->node + x->n_nodes - d) % x->n_nodes;

        rc = add_counts(x, &t, from, &copies[from]);
    }
    if (rc == 0)
        rc = write_counts(x, &t);
    for (int k = 0; copies && k < x->n_nodes; k++)
        free(copies[k]);
    free(copies);
    free(t.words);
    return rc;
}

static int run(struct executor *x)
{
    bool lowers = x->n_args == 1 && strcmp(x->args[0], "lower") == 0;
    char *copy = NULL;
    const char *zero = x->n_input > 0 ? memchr(x->input, '\0', x->n_input) : NULL;
    int rc;

    if (x->n_args > 0 && !lowers)
        return x->host->fail(x, "\"%s\": the only argument is \"lower\"", x->args[0]);
    if (zero)
        return x->host->fail(
            x,
            "the input of node %d is no text: its byte %zu is zero; give --data a file, or a folder "
            "of files, of text only",
            x->node, (size_t)(zero - x->input));
    if (lowers && !(copy = lower(x->input, x->n_input)))
        return x->host->fail(x, "no memory for a copy of %zu bytes", x->n_input);
    rc = count(x, copy ? copy : x->input);
    free(copy);
    return rc;
}

EXECUTOR_PLUGIN(.name = "word_count", .run = run)
