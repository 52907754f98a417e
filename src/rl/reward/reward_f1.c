/* F1 of the words that a response and a label have in common: the metric of SQuAD and HotpotQA. Only ASCII is
 * lower-cased, and only ASCII punctuation is removed; articles are left out. */
#include "rl/reward/reward_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct word_list {
    reward_text *word;
    size_t n;
} word_list;

static bool is_punctuation(char c)
{
    return c > ' ' && c <= '~' && !reward_is_digit(c) && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static bool is_article(reward_text word)
{
    return reward_same(word, (reward_text){"a", 1}) || reward_same(word, (reward_text){"an", 2}) ||
           reward_same(word, (reward_text){"the", 3});
}

static int compare_words(const void *x, const void *y)
{
    const reward_text *a = x, *b = y;
    int order = memcmp(a->at, b->at, a->size < b->size ? a->size : b->size);
    return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

static void add_word(word_list *words, char *begin, const char *end)
{
    reward_text word = {begin, (size_t)(end - begin)};
    if (word.size > 0 && !is_article(word))
        words->word[words->n++] = word;
}

/* Splits a text at white space into words, in lower case and without punctuation. */
static tess_status normalise(tess_scope *own, reward_text text, word_list *words)
{
    char *begin, *end;
    TESS_TRY(TESS_NEW_IN(own, text.size + 1, "words", &begin));
    TESS_TRY(TESS_NEW_IN(own, text.size / 2 + 1, "words", &words->word));
    end = begin;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.at[i];
        if (reward_is_space(c)) {
            add_word(words, begin, end);
            begin = end;
        } else if (!is_punctuation(c)) {
            *end++ = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
        }
    }
    add_word(words, begin, end);
    return TESS_OK;
}

/* Answers of one word that are either right or wrong. */
static bool is_verdict(const word_list *words)
{
    static const char *const verdicts[] = {"yes", "no", "noanswer"};
    for (int i = 0; words->n == 1 && i < 3; i++)
        if (reward_same(words->word[0], (reward_text){verdicts[i], strlen(verdicts[i])}))
            return true;
    return false;
}

static double overlap(word_list *a, word_list *b)
{
    bool same_verdict = a->n == 1 && b->n == 1 && compare_words(a->word, b->word) == 0;
    if ((is_verdict(a) || is_verdict(b)) && !same_verdict)
        return 0;
    qsort(a->word, a->n, sizeof(reward_text), compare_words);
    qsort(b->word, b->n, sizeof(reward_text), compare_words);
    size_t shared = 0;
    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        int order = compare_words(&a->word[i], &b->word[j]);
        shared += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    if (shared == 0)
        return 0;
    double precision = (double)shared / (double)a->n, recall = (double)shared / (double)b->n;
    return 2 * precision * recall / (precision + recall);
}

tess_status reward_f1(tess_mem *mem, reward_text response, reward_text label, double *value)
{
    word_list a = {0}, b = {0};
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = mem};
    TESS_TRY(normalise(&own, response, &a));
    TESS_TRY(normalise(&own, label, &b));
    *value = overlap(&a, &b);
    return TESS_OK;
}
