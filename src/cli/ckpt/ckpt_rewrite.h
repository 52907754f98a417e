/* Functions shared by the commands that write one checkpoint from another: convert, ckpt merge, split and extract. */
#ifndef TESS_CLI_CKPT_CKPT_REWRITE_H
#define TESS_CLI_CKPT_CKPT_REWRITE_H

#include "ckpt/tools/rewrite.h"

/* Calls tess_ckpt_rewrite, and prints its report, progress and result. Returns the exit code. */
int cli_rewrite(tess_mem *mem, const char *in, const char *out, tess_rewrite_options *options);

/* Returns the format that the name `out` implies. `folder`: the format if `out` is a folder. TESS_TARGETS: the
 * ending is unknown. */
tess_target cli_target_of(const char *out, tess_target folder);

#endif
