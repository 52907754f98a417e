#include "trace/label.h"

#include <stdio.h>
#include <string.h>

/* Six bits a letter; 0 ends the word. Above them 1 + the number, 0: none. */
static const char letters[] = "\001abcdefghijklmnopqrstuvwxyz0123456789_.- /:+";

enum { LETTER_BITS = 6, NUMBER_SHIFT = LETTER_BITS * TESS_LABEL_LETTERS };

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
    for (int i = 0; i < TESS_LABEL_LETTERS && word[i] != '\0'; i++)
        label |= letter_code(word[i]) << (LETTER_BITS * i);
    if (number >= 0)
        label |= (uint64_t)(1 + number % (TESS_LABEL_MOST + 1)) << NUMBER_SHIFT;
    return label;
}

const char *tess_label_text(uint64_t label, char *text, size_t size)
{
    char word[TESS_LABEL_LETTERS + 1] = "";
    for (int i = 0; i < TESS_LABEL_LETTERS; i++) {
        uint64_t code = label >> (LETTER_BITS * i) & 63;
        word[i] = code < sizeof(letters) ? letters[code] : '?';
        if (code == 0)
            word[i] = '\0';
    }
    uint64_t number = label >> NUMBER_SHIFT;
    if (number > 0)
        snprintf(text, size, "%s %llu", word, (unsigned long long)(number - 1));
    else
        snprintf(text, size, "%s", word);
    return text;
}
