/* Writes a configuration as a file that a user could have written: the values that are no defaults, by section. */
#ifndef TESS_CLI_PLAN_WRITTEN_CONFIG_H
#define TESS_CLI_PLAN_WRITTEN_CONFIG_H

#include "config/config.h"

/* Writes the file atomically. `head`: lines of a comment before it. */
tess_status cli_config_write(tess_mem *mem, const tess_config *config, const char *head, const char *path);

#endif
