#include "trace/label.h"

#include <stdio.h>
#include <string.h>

/* Letters of a word. The word is stored as a number in base 40, with the first letter as its lowest digit; digit 0
 * ends it. The bits above hold 1 + the label's number; 0: none. */
static const char letters[] = "\001abcdefghijklmnopqrstuvwxyz0123456789_-~";

enum { BASE = sizeof(letters) - 1, NUMBER_SHIFT = 48 };

_Static_assert(BASE == 40, "nine letters are less than 48 bits");

static uint64_t letter_code(char letter)
{
    if (letter >= 'A' && letter <= 'Z')
        letter = (char)(letter - 'A' + 'a');
    const char *at = strchr(letters + 1, letter);
    return (uint64_t)((at != NULL ? at : strchr(letters, '_')) - letters);
}

uint64_t tess_label(const char *word, int64_t number)
{
    uint64_t label = 0;
    if (word == NULL || word[0] == '\0')
        return 0;
    size_t n = strlen(word);
    bool is_cut = n > TESS_LABEL_LETTERS;
    for (size_t i = is_cut ? TESS_LABEL_LETTERS : n; i-- > 0;)
        label = label * BASE + letter_code(is_cut && i == TESS_LABEL_LETTERS - 1 ? '~' : word[i]);
    if (number >= 0)
        label |= (uint64_t)(1 + number % (TESS_LABEL_MOST + 1)) << NUMBER_SHIFT;
    return label;
}

const char *tess_label_text(uint64_t label, char *text, size_t size)
{
    char word[TESS_LABEL_LETTERS + 1] = "";
    uint64_t rest = label & ((UINT64_C(1) << NUMBER_SHIFT) - 1), number = label >> NUMBER_SHIFT;
    for (int i = 0; i < TESS_LABEL_LETTERS && rest % BASE != 0; i++, rest /= BASE)
        word[i] = letters[rest % BASE];
    if (number > 0)
        snprintf(text, size, "%s %llu", word, (unsigned long long)(number - 1));
    else
        snprintf(text, size, "%s", word);
    return text;
}
