/* The commands of `tessera-doctor`: a diagnosis of jobs, logs and machines, without training. */
#include "cli/commands.h"

static const cli_entry entries[] = {{"understand and debug", &cli_trace}, {NULL, &cli_top}, {NULL, &cli_doctor}};

const cli_program cli_this_program = {
    "diagnose jobs, logs and machines; `tessera-doctor VERB` is `tessera doctor VERB`", entries,
    sizeof(entries) / sizeof(entries[0]), &cli_doctor};
