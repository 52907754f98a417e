/* Training that replaces ranks that are lost: the memory that they keep, and when it is given up. */
#ifndef TESS_CLI_REPLACING_H
#define TESS_CLI_REPLACING_H

#include "cli/start.h"
#include "comm/keep/keep.h"
#include "train/config.h"

typedef struct cli_replacing {
    tess_mem *mem;
    tess_keep_set keep;
    char folder[1024]; /* of the copies that outlive the launcher, "": none */
} cli_replacing;

/* Sets options->keep where `config` asks for it, for n_ranks on this host. `replacing` must live until the ranks have
 * ended, then goes to cli_replacing_end, whatever was asked for. */
tess_status cli_replacing_begin(const tess_config *config, int n_ranks, tess_launch_options *options,
                                cli_replacing *replacing);
/* `over`: nobody is to go on from copies that outlive the launcher: they are removed. Else people are told of them. */
void cli_replacing_end(cli_replacing *replacing, bool over);

#endif
