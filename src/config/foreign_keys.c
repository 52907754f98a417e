/* A table of other programs' keys (foreign_keys.yaml). Users try these first, and the nearest spelling often has
 * another meaning. */
#include "config/foreign_keys.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

extern const unsigned char tess_data_foreign_keys[]; /* ends with NUL */

const char *tess_foreign_next(const char *at, tess_foreign_key *row)
{
    for (at = at != NULL ? at : (const char *)tess_data_foreign_keys; *at != '\0';) {
        *row = (tess_foreign_key){.note = ""};
        bool is_row = sscanf(at, "%63[^:#\n]: [%63[^],], \"%199[^\"]", row->key, row->ours, row->note) >= 2;
        if (strcmp(row->ours, "null") == 0)
            row->ours[0] = '\0';
        at += strcspn(at, "\n");
        at += *at == '\n';
        if (is_row)
            return at;
    }
    return NULL;
}

void tess_foreign_normalize(const char *key, char word[TESS_FOREIGN_SIZE])
{
    size_t n = 0;
    for (key += strspn(key, "-"); *key != '\0' && n + 1 < TESS_FOREIGN_SIZE; key++)
        word[n++] = *key == '-' ? '_' : (char)tolower((unsigned char)*key);
    word[n] = '\0';
}

/* Finds the row of a word, or of the section that the word is in. */
static bool find(const char *word, bool section, tess_foreign_key *row)
{
    for (const char *at = NULL; (at = tess_foreign_next(at, row)) != NULL;) {
        size_t n = strlen(row->key);
        if (section ? row->key[n - 1] == '*' && strncmp(row->key, word, n - 1) == 0 : strcmp(row->key, word) == 0)
            return true;
    }
    return false;
}

bool tess_foreign_find(const char *key, tess_foreign_key *row)
{
    char word[TESS_FOREIGN_SIZE];
    tess_foreign_normalize(key, word);
    const char *dot = strrchr(word, '.');
    return find(word, false, row) || (dot != NULL && strchr(dot, '_') != NULL && find(dot + 1, false, row)) ||
           find(word, true, row);
}

bool tess_foreign_has(const char *key)
{
    tess_foreign_key row;
    return tess_foreign_find(key, &row);
}

tess_status tess_foreign_refuse(const tess_option_table *tables, int n_tables, const char *key)
{
    char word[TESS_FOREIGN_SIZE];
    tess_foreign_key found;
    tess_foreign_normalize(key, word);
    if (!tess_foreign_find(key, &found))
        return tess_options_refuse(tables, n_tables, word, key);
    TESS_CHECK(found.ours[0] != '\0', TESS_E_INVALID, "%.100s is not supported: %s", key, found.note);
    bool noted = found.note[0] != '\0';
    return TESS_FAIL(TESS_E_INVALID, "unknown key '%.100s': did you mean '%s'?%s%s%s", key, found.ours,
                     noted ? " (" : "", found.note, noted ? ")" : "");
}
