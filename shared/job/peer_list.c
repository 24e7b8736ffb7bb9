#include "shared/job/peer_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/crypto.h"
#include "shared/job/settings.h"
#include "shared/job/worker_list.h"

#define WORD_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:%[]"

enum { WORDS = 5, KEY_HEX = 2 * PEER_KEY_BYTES + 1 };

size_t peer_print(char out[PEER_TEXT], const struct peer *p)
{
    char key[KEY_HEX];

    hex_encode(key, p->key, sizeof p->key);
    return (size_t)snprintf(out, PEER_TEXT, "%d %s %s %d %s", p->node, p->address, p->host, p->data_port,
                            key);
}

/* Ends the word at `*at`, whose separator is `after`, and moves *at behind it. NULL: it does not end so. */
static char *take_word(char **at, char after)
{
    char *word = *at, *end = word + strspn(word, WORD_CHARACTERS);

    if (end == word || *end != after)
        return NULL;
    *at = after ? end + 1 : end;
    *end = '\0';
    return word;
}

/* A decimal number from `least` to `most`, of at most six digits. */
static bool take_number(int *out, const char *word, int least, int most)
{
    const char *digits = word[0] == '-' ? word + 1 : word;
    size_t n = strspn(digits, "0123456789");

    if (n == 0 || n > 6 || digits[n])
        return false;
    *out = atoi(word);
    return *out >= least && *out <= most;
}

static int parse_entry(struct peer *p, char **at, bool is_last, const char *where, struct err *e)
{
    char *word[WORDS];

    for (int i = 0; i < WORDS; i++) {
        word[i] = take_word(at, i + 1 < WORDS ? ' ' : is_last ? '\0' : ';');
        if (!word[i])
            return err_set(e, ERR_CONFIG, "%s: not NODE ADDRESS HOST PORT KEY", where);
    }
    if (!take_number(&p->node, word[0], -NODES_MAX - 1, NODES_MAX - 1) || p->node == -1)
        return err_set(e, ERR_CONFIG, "%s: \"%.40s\" is no node's number", where, word[0]);
    if (strlen(word[1]) >= ADDRESS_MAX)
        return err_set(e, ERR_CONFIG, "%s: an address of more than %d characters", where, ADDRESS_MAX - 1);
    if (strlen(word[2]) >= PEER_HOST_MAX)
        return err_set(e, ERR_CONFIG, "%s: a host of more than %d characters", where, PEER_HOST_MAX - 1);
    if (!take_number(&p->data_port, word[3], 1, UINT16_MAX))
        return err_set(e, ERR_CONFIG, "%s: \"%.40s\" is no port", where, word[3]);
    if (!hex_decode(p->key, sizeof p->key, word[4]))
        return err_set(e, ERR_CONFIG, "%s: the key has not %d lower-case hex digits", where, KEY_HEX - 1);
    p->address = word[1];
    p->host = word[2];
    return 0;
}

static size_t count_entries(const char *text)
{
    size_t n = text[0] ? 1 : 0;

    for (const char *p = text; (p = strchr(p, ';')) != NULL; p++)
        n++;
    return n;
}

static int parse_entries(struct peer_list *l, size_t n, struct err *e)
{
    bool seen[2 * NODES_MAX + 1] = {false};
    char *at = l->text, where[32];

    for (; l->n < n; l->n++) {
        struct peer *p = &l->at[l->n];
        bool *is_seen;

        snprintf(where, sizeof where, "/peers/%zu", l->n);
        if (parse_entry(p, &at, l->n + 1 == n, where, e) < 0)
            return e->code;
        is_seen = &seen[p->node + NODES_MAX + 1];
        if (*is_seen)
            return err_set(e, ERR_CONFIG, "%s: node %d occurs twice", where, p->node);
        *is_seen = true;
    }
    return 0;
}

int peer_list_parse(struct peer_list *out, const char *text, struct err *e)
{
    size_t n = count_entries(text);
    struct peer_list l = {.text = strdup(text)};
    int rc;

    if (n > 2 * NODES_MAX)
        rc = err_set(e, ERR_CONFIG, "/peers: %zu nodes, more than %d", n, 2 * NODES_MAX);
    else if (!l.text || !(l.at = calloc(n + 1, sizeof *l.at)))
        rc = err_set(e, ERR_NOMEM, "no memory for %zu peers", n);
    else
        rc = parse_entries(&l, n, e);
    if (rc < 0)
        peer_list_clear(&l);
    else
        *out = l;
    return rc;
}

void peer_list_clear(struct peer_list *l)
{
    free(l->text);
    free(l->at);
    *l = (struct peer_list){0};
}

long peer_list_find(const struct peer_list *l, int node)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i].node == node)
            return (long)i;
    return -1;
}
