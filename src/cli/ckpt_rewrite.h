/* Shared by the commands that write a checkpoint from another: convert, ckpt merge, split and extract. */
#ifndef TESS_CLI_CKPT_REWRITE_H
#define TESS_CLI_CKPT_REWRITE_H

#include "ckpt/tools/rewrite.h"

/* tess_ckpt_rewrite with its report, its progress and its result shown; returns the exit code. */
int cli_rewrite(tess_mem *mem, const char *in, const char *out, tess_rewrite_options *options);

/* By the name of what is to be written; `folder` for one that is no file's. TESS_TARGETS: of no format that is here. */
tess_target cli_target_of(const char *out, tess_target folder);

#endif
