/* The commands of a program. Two programs have the same main.c: `tessera`, and `tessera-doctor`, which only diagnoses.
 */
#ifndef TESS_CLI_COMMANDS_H
#define TESS_CLI_COMMANDS_H

#include "cli/cli.h"

/* A command in a list. `group` is the title printed above it; NULL: it belongs to the group of the one before. */
typedef struct cli_entry {
    const char *group;
    const cli_command *command;
} cli_entry;

typedef struct cli_program {
    const char *help; /* text for the first line of its help */
    const cli_entry *entries;
    int n_entries;
    const cli_command *also; /* a command whose verbs are commands of the program; NULL: none */
} cli_program;

extern const cli_program cli_this_program;

#endif
