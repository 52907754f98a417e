/* Shared by the commands that write a checkpoint from another: convert, ckpt merge, split and extract. */
#ifndef TESS_CLI_CKPT_REWRITE_H
#define TESS_CLI_CKPT_REWRITE_H

#include "ckpt/tools/rewrite.h"

/* tess_ckpt_rewrite with its report, its progress and its result shown; returns the exit code. */
int cli_rewrite(tess_mem *mem, const char *in, const char *out, tess_rewrite_options *options);

#endif
