/* Shared by the commands that write a checkpoint from another: convert, ckpt merge, split and extract. */
#ifndef TESS_CLI_CKPT_CKPT_REWRITE_H
#define TESS_CLI_CKPT_CKPT_REWRITE_H

#include "ckpt/tools/rewrite.h"

/* tess_ckpt_rewrite; prints its report, progress and result. Returns the exit code. */
int cli_rewrite(tess_mem *mem, const char *in, const char *out, tess_rewrite_options *options);

/* The format that the name `out` asks for; `folder`: what a folder is. TESS_TARGETS: an unknown ending. */
tess_target cli_target_of(const char *out, tess_target folder);

#endif
