/* Training that replaces ranks that are lost: the memory that they keep, and when it is given up. */
#ifndef TESS_CLI_REPLACING_H
#define TESS_CLI_REPLACING_H

#include "cli/start.h"
#include "comm/keep/keep.h"
#include "train/config.h"

typedef struct cli_replacing {
    tess_mem *mem;
    tess_keep_set keep;
    int64_t steps;     /* done when a rank was last lost */
    int n_in_vain;     /* times in a row that no step was done after one was replaced */
    char folder[1024]; /* of the copies that outlive the launcher, "": none */
} cli_replacing;

/* Fills in `options` where `config` asks for it and this process starts the ranks; one that was asked for (`told`: with
 * -n) is then started, too, when it is alone. `replacing` must live until the ranks have ended, then goes to
 * cli_replacing_end, whatever was asked for. */
tess_status cli_replacing_begin(const tess_config *config, bool told, cli_ranks *ranks, tess_launch_options *options,
                                cli_replacing *replacing);
/* `code`: of the job. Copies of one that is finished, or has saved when it was interrupted, are removed. */
void cli_replacing_end(cli_replacing *replacing, int code);

#endif
