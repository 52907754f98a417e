/* A new folder that appears complete or not at all: written under a temporary name and renamed. */
#ifndef TESS_CKPT_NEW_FOLDER_H
#define TESS_CKPT_NEW_FOLDER_H

#include "tessera/memory.h"

typedef struct tess_new_folder {
    char path[4096];          /* without a trailing slash */
    char temporary[4096 + 8]; /* where the caller writes; the caller creates it */
} tess_new_folder;

/* TESS_E_INVALID: `path` is a folder that is not empty. */
tess_status tess_new_folder_begin(const char *path, tess_new_folder *folder);
/* Renames the folder to `path`, or, after a failure in `status`, removes it. Returns `status` or its own failure. */
tess_status tess_new_folder_end(const tess_new_folder *folder, tess_status status);

#endif
