/* The words that start this program again. */
#ifndef TESS_SUPERVISE_OWN_COMMAND_H
#define TESS_SUPERVISE_OWN_COMMAND_H

#include "tessera/status.h"

enum { TESS_OWN_COMMAND_WORDS = 256, TESS_OWN_COMMAND_WORDS_SPARE = 16 };
typedef struct tess_own_command {
    char program[4096];
    int n;                              /* TESS_OWN_COMMAND_WORDS_SPARE more words and a NULL fit */
    char *word[TESS_OWN_COMMAND_WORDS]; /* word[0] is the path of this program */
} tess_own_command;
tess_status tess_own_command_of(int argc, char *const *argv, tess_own_command *words);

#endif
