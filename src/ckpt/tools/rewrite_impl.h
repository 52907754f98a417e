/* Shared by the files of this folder that write. */
#ifndef TESS_CKPT_TOOLS_REWRITE_IMPL_H
#define TESS_CKPT_TOOLS_REWRITE_IMPL_H

#include "ckpt/formats/export_catalog.h"
#include "ckpt/tools/rewrite.h"

enum { TESS_REWRITE_PATH = 4096 };

/* One rewriting under way. */
typedef struct rewriting {
    tess_mem *mem;
    const tess_rewrite_options *options;
    const char *in, *out;
    const tess_export *export;
    tess_rewrite_result *result; /* `path` is for the writers to say */
    uint64_t done;               /* bytes written */
} rewriting;

/* ---- rewrite_progress.c: `bytes` more are written */
void rewrite_say(rewriting *r, uint64_t bytes);

/* ---- write_store.c */
tess_status rewrite_as_store(rewriting *r);

/* ---- write_safetensors.c */
tess_status rewrite_as_file(rewriting *r);
tess_status rewrite_as_model_folder(rewriting *r);

/* ---- assets.c: config.json and what stands beside it, from where the source's model is described to `folder` */
tess_status rewrite_assets(rewriting *r, const char *folder);

#endif
