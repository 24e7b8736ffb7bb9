#include "submit/data/tokenizer.h"

#include "tests/unit/unit.h"

static struct err e;

/* The words of a text, separated by '|'. */
static void words_of(char *out, const char *text, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = tokenizer_word((const uint8_t *)text + at, len - at);
        memcpy(out, text + at, n);
        out += n;
        *out++ = '|';
    }
    *out = '\0';
}

TEST(a_text_is_cut_into_words)
{
    static const struct {
        const char *text, *words;
    } cases[] = {{"It's 12345 caf\xc3\xa9s.", "It|'|s| 123|45| caf\xc3\xa9s|.|"},
                 {"a  b", "a| | b|"},
                 {"a\n\n b ", "a|\n\n| b| |"},
                 {" ", " |"},
                 {"  ", "  |"},
                 {"x=(y+1);", "x|=(|y|+|1|);|"},
                 {"\t\tif", "\t\t|if|"}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        char words[64];

        words_of(words, cases[i].text, strlen(cases[i].text));
        assert_string_equal(words, cases[i].words);
    }
}

TEST(a_long_word_is_cut)
{
    uint8_t text[200];

    memset(text, 'a', sizeof text);
    assert_int_equal(tokenizer_word(text, sizeof text), TOKENIZER_WORD);
    memset(text, ' ', sizeof text);
    assert_in_range(tokenizer_word(text, sizeof text), TOKENIZER_WORD - 1, TOKENIZER_WORD);
}

static void count_words(struct word_counts *c, const char *text, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = tokenizer_word((const uint8_t *)text + at, len - at);
        assert_ok(word_counts_add(c, (const uint8_t *)text + at, n, &e));
    }
}

static void learn_from(struct tokenizer *t, const char *text, size_t len, int vocab)
{
    struct word_counts c = {0};
    struct token_merge *merges;
    size_t n;

    count_words(&c, text, len);
    assert_ok(tokenizer_learn(&merges, &n, &c, vocab, &e));
    assert_ok(tokenizer_init(t, merges, n, &e));
    free(merges);
    word_counts_clear(&c);
}

/* Sennrich, Haddow and Birch: low 5, lower 2, newest 6, widest 3; without their end of a word. "es" is in 9
 * words as "st" is, and first as 'e' is before 's'. */
TEST(the_most_frequent_pair_is_merged_first)
{
    static const char *const expected[] = {"es", "est", "lo", "low", "ew", "new"};
    char text[256] = "";
    struct tokenizer t;

    for (int i = 0; i < 6; i++)
        strcat(text, "newest\n");
    for (int i = 0; i < 5; i++)
        strcat(text, "low\n");
    for (int i = 0; i < 3; i++)
        strcat(text, "widest\n");
    for (int i = 0; i < 2; i++)
        strcat(text, "lower\n");
    learn_from(&t, text, strlen(text), 256 + 6);
    assert_int_equal(t.n_merges, 6);
    for (uint32_t i = 0; i < 6; i++) {
        size_t n;
        const char *bytes = tokenizer_decode(&t, 256 + i, &n);

        assert_int_equal(n, strlen(expected[i]));
        assert_memory_equal(bytes, expected[i], n);
    }
    tokenizer_clear(&t);
}

/* Counts all pairs anew for each merge. */
static size_t learn_slowly(struct token_merge *merges, const char *text, size_t len, size_t most)
{
    uint16_t *tokens = malloc(len * sizeof *tokens);
    size_t *ends = malloc(len * sizeof *ends), n_words = 0, n_merges = 0;
    uint32_t *counts = malloc(512 * 512 * sizeof *counts);

    assert_true(tokens && ends && counts);
    for (size_t at = 0, n; at < len; at += n) {
        n = tokenizer_word((const uint8_t *)text + at, len - at);
        for (size_t i = 0; i < n; i++)
            tokens[at + i] = (uint8_t)text[at + i];
        ends[n_words] = at + n;
        n_words++;
    }
    while (n_merges < most) {
        size_t best = 0, to = 0, from = 0;

        memset(counts, 0, 512 * 512 * sizeof *counts);
        for (size_t w = 0, i = 0; w < n_words; i = ends[w++])
            for (; i + 1 < ends[w]; i++)
                counts[tokens[i] * 512 + tokens[i + 1]]++;
        for (size_t p = 0; p < 512 * 512; p++)
            best = counts[p] > counts[best] ? p : best;
        if (counts[best] < 2)
            break;
        merges[n_merges] = (struct token_merge){(uint16_t)(best / 512), (uint16_t)(best % 512)};
        for (size_t w = 0; w < n_words; w++) {
            size_t end = ends[w];

            while (from < end) {
                bool is_pair = from + 1 < end && (size_t)tokens[from] * 512 + tokens[from + 1] == best;

                tokens[to++] = is_pair ? (uint16_t)(256 + n_merges) : tokens[from];
                from += is_pair ? 2 : 1;
            }
            ends[w] = to;
        }
        n_merges++;
    }
    free(counts);
    free(ends);
    free(tokens);
    return n_merges;
}

TEST(the_table_of_pairs_learns_what_counting_anew_learns)
{
    enum { LEN = 6000 };
    char text[LEN];
    struct token_merge slow[256];
    struct rng r;

    for (uint64_t seed = 0; seed < 6; seed++) {
        struct tokenizer t;
        size_t n;

        rng_init(&r, seed, 1, 2);
        for (size_t i = 0; i < LEN; i++) {
            uint32_t x = rng_below(&r, 12);

            text[i] = " aabbcde\xc3\xa9\n1"[x];
        }
        n = learn_slowly(slow, text, LEN, 200);
        learn_from(&t, text, LEN, 256 + 200);
        assert_int_equal(t.n_merges, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(t.merges[i].left, slow[i].left);
            assert_int_equal(t.merges[i].right, slow[i].right);
        }
        tokenizer_clear(&t);
    }
}

TEST(any_bytes_come_back_from_their_tokens)
{
    enum { LEN = 20000 };
    static const uint8_t words[] = "the cat \n 42";
    static uint8_t text[LEN], back[LEN];
    struct tokenizer t;
    size_t n_tokens = 0, n_back = 0;
    struct rng r;

    rng_init(&r, 1, 2, 3);
    for (size_t i = 0; i < LEN; i++)
        text[i] = (uint8_t)(i % 3 ? (uint32_t)words[rng_below(&r, 12)] : rng_below(&r, 256));
    learn_from(&t, "the cat the cat the dog 42 42 42\n 42", 36, 300);
    assert_true(t.n_merges > 5);
    for (int pass = 0; pass < 2; pass++) { /* from the cache, too */
        n_back = 0;
        for (size_t at = 0, n; at < LEN; at += n) {
            uint16_t tokens[TOKENIZER_WORD];
            size_t k;

            n = tokenizer_word(text + at, LEN - at);
            k = tokenizer_encode(&t, tokens, text + at, n);
            assert_in_range(k, 1, n);
            n_tokens += k;
            for (size_t i = 0; i < k; i++) {
                size_t len;
                const char *bytes = tokenizer_decode(&t, tokens[i], &len);

                assert_true(len > 0 && n_back + len <= LEN);
                memcpy(back + n_back, bytes, len);
                n_back += len;
            }
        }
        assert_int_equal(n_back, LEN);
        assert_memory_equal(back, text, LEN);
    }
    assert_true(n_tokens < 2 * LEN);
    {
        size_t n;

        assert_null(tokenizer_decode(&t, (uint32_t)tokenizer_vocab(&t), &n));
        assert_int_equal(n, 0);
    }
    tokenizer_clear(&t);
}

TEST(merges_that_cannot_be_are_refused)
{
    static const struct token_merge unknown[] = {{'a', 'b'}, {256, 257}};
    static const struct token_merge again[] = {{'a', 'b'}, {'b', 'c'}, {'a', 'b'}};
    struct token_merge twice[8] = {{'a', 'a'}};
    struct tokenizer t;

    assert_int_equal(tokenizer_init(&t, unknown, 2, &e), ERR_CONFIG);
    assert_error_has("merge 1 is of the tokens 256 and 257, and only 257 are known there");
    assert_int_equal(tokenizer_init(&t, again, 3, &e), ERR_CONFIG);
    assert_error_has("merge 2 is merge 0 again");
    for (uint16_t i = 1; i < 8; i++)
        twice[i] = (struct token_merge){(uint16_t)(255 + i), (uint16_t)(255 + i)};
    assert_int_equal(tokenizer_init(&t, twice, 8, &e), ERR_CONFIG);
    assert_error_has("merge 6 makes a token of 128 bytes, at most 64");
    assert_int_equal(tokenizer_init(&t, NULL, 65281, &e), ERR_CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_cut_into_words),
        cmocka_unit_test(a_long_word_is_cut),
        cmocka_unit_test(the_most_frequent_pair_is_merged_first),
        cmocka_unit_test(the_table_of_pairs_learns_what_counting_anew_learns),
        cmocka_unit_test(any_bytes_come_back_from_their_tokens),
        cmocka_unit_test(merges_that_cannot_be_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
