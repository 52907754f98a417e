/* Searches the knowledge base for words (`tessera doctor log --search`, `--list`). */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "doctor/log/log_impl.h"

/* Returns the weight of a word for an entry. Names and symptoms weigh most, because people search for them. */
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

/* Returns the weight of an entry; 0: it has fewer than half of the words. An entry with all words always outweighs
 * one without. */
static int weigh(const tess_log_entry *entry, const char *words)
{
    char copy[512], *rest = NULL;
    int n = 0, n_found = 0, weight = 0;
    snprintf(copy, sizeof(copy), "%s", words);
    for (char *word = strtok_r(copy, " \t,.;:'\"()", &rest); word != NULL;
         word = strtok_r(NULL, " \t,.;:'\"()", &rest)) {
        if (tess_text_has(word, strlen(word), TESS_WORD_IS + TESS_WORD_CASELESS, /* words without a meaning */
                          "a|an|and|at|by|for|from|i|in|is|it|my|of|on|or|the|to|we|why|with"))
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
