/* Searches the knowledge for words (`doctor log --search`, `--list`). */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "doctor/log/log_impl.h"

/* The weight of a word: people search for names and symptoms. */
static int weigh_word(const tess_log_entry *entry, const char *word)
{
    const char *const head[] = {entry->row.id, entry->symptom, entry->match};
    const char *const rest[] = {entry->cause, entry->fix, entry->check, entry->myth};
    for (int i = 0; i < 3; i++)
        if (head[i] != NULL && strcasestr(head[i], word) != NULL)
            return 3;
    for (int i = 0; i < 4; i++)
        if (rest[i] != NULL && strcasestr(rest[i], word) != NULL)
            return 1;
    return 0;
}

/* Words without a meaning of their own. */
static bool is_filler(const char *word)
{
    static const char *const fillers[] = {"a",  "an", "and", "at", "by", "for", "from", "i",  "in",  "is",
                                          "it", "my", "of",  "on", "or", "the", "to",   "we", "why", "with"};
    for (size_t i = 0; i < sizeof(fillers) / sizeof(fillers[0]); i++)
        if (strcasecmp(word, fillers[i]) == 0)
            return true;
    return false;
}

/* 0: the entry has fewer than half of the words. One that has all comes before any that has not. */
static int weigh(const tess_log_entry *entry, const char *words)
{
    char copy[512], *rest = NULL;
    int n = 0, n_found = 0, weight = 0;
    snprintf(copy, sizeof(copy), "%s", words);
    for (char *word = strtok_r(copy, " \t,.;:'\"()", &rest); word != NULL;
         word = strtok_r(NULL, " \t,.;:'\"()", &rest)) {
        if (is_filler(word))
            continue;
        int found = weigh_word(entry, word);
        n++;
        n_found += found > 0;
        weight += found;
    }
    return n_found == 0 || 2 * n_found < n ? 0 : weight + (n_found == n ? 1000 : 0);
}

int tess_log_search(const tess_knowledge *knowledge, const char *words, int *entries, int most)
{
    int weights[TESS_TABLE_MOST_ROWS], n = 0;
    for (int i = 0; i < tess_knowledge_n(knowledge); i++) {
        int weight = weigh(tess_knowledge_at(knowledge, i), words), at = n < most ? n : most;
        if (weight == 0)
            continue;
        while (at > 0 && weights[at - 1] < weight)
            at--;
        if (at == most)
            continue;
        int moved = (n < most ? n : most - 1) - at;
        memmove(&weights[at + 1], &weights[at], (size_t)moved * sizeof(int));
        memmove(&entries[at + 1], &entries[at], (size_t)moved * sizeof(int));
        weights[at] = weight;
        entries[at] = i;
        n += n < most;
    }
    return n;
}
