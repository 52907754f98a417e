/* This program, to be started again. */
#ifndef TESS_SUPERVISE_OWN_COMMAND_H
#define TESS_SUPERVISE_OWN_COMMAND_H

#include <stddef.h>

#include "tessera/status.h"

/* The words that start this program again, behind its own path. */
enum { TESS_OWN_COMMAND_WORDS = 256, TESS_OWN_COMMAND_WORDS_SPARE = 16 };
typedef struct tess_own_command {
    char program[4096];
    int n; /* at least TESS_OWN_COMMAND_WORDS_SPARE more, and a NULL, fit behind them */
    char *word[TESS_OWN_COMMAND_WORDS];
} tess_own_command;
tess_status tess_own_command_of(int argc, char *const *argv, tess_own_command *words);

#endif
