/* Definitions that the writers of this folder share. */
#ifndef TESS_CKPT_TOOLS_REWRITE_IMPL_H
#define TESS_CKPT_TOOLS_REWRITE_IMPL_H

#include "ckpt/formats/export_catalog.h"
#include "ckpt/tools/rewrite.h"
#include "nn/model.h"

enum { TESS_REWRITE_PATH = 4096 };

/* One conversion in progress. */
typedef struct rewriting {
    tess_mem *mem;
    const tess_rewrite_options *options;
    const char *in, *out;
    /* The conversion is from a model folder to a model folder: every name, file and metadata stays the same */
    bool same_model;
    char assets[TESS_REWRITE_PATH]; /* HF: the folder with config.json; "": none was found */
    tess_model *model;              /* the model that config.json describes; NULL: not known */
    const tess_export *export;
    tess_rewrite_result *result; /* the writers set `path` */
    uint64_t done;               /* bytes written */
} rewriting;

static inline bool rewrite_changes(const rewriting *r, const char *name)
{
    const tess_rewrite_change *change = &r->options->change;
    return change->concerns != NULL && change->concerns(change->self, name);
}

/* ---- rewrite_report.c */
/* Reports progress: `bytes` more were written. */
void rewrite_progress(rewriting *r, uint64_t bytes);
/* Reports a line to the user. */
void rewrite_report(const rewriting *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- write_store.c */
tess_status rewrite_as_store(rewriting *r);

/* ---- write_safetensors.c */
tess_status rewrite_as_file(rewriting *r);
tess_status rewrite_as_model_folder(rewriting *r);

/* ---- assets.c */
/* Sets `assets`. TESS_E_NOT_FOUND: the user's folder has no config.json. */
tess_status rewrite_find_assets(rewriting *r);
/* Writes config.json and the files next to it into `folder`. */
tess_status rewrite_assets(const rewriting *r, const char *folder);

/* ---- model_check.c */
/* Reads the model that assets/config.json describes. If it cannot be read, this is reported, and nothing is checked
 * later. */
tess_status rewrite_read_model(rewriting *r);
/* Checks that the export has the names and shapes of `model`. TESS_E_INVALID: the message lists what is missing, what
 * is superfluous, and what has another shape. */
tess_status rewrite_check_model(const rewriting *r);

#endif
