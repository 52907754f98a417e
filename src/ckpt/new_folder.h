/* A folder that appears when all that belongs into it is written, or not at all. */
#ifndef TESS_CKPT_NEW_FOLDER_H
#define TESS_CKPT_NEW_FOLDER_H

#include "tessera/memory.h"

typedef struct tess_new_folder {
    char path[4096];          /* without a slash at its end */
    char temporary[4096 + 8]; /* where it is written: not there at first */
} tess_new_folder;

/* TESS_E_INVALID: there is something in `path`. */
tess_status tess_new_folder_begin(const char *path, tess_new_folder *folder);
/* Gives it its name, or, after a failure, removes what was written; returns the worse status. */
tess_status tess_new_folder_end(const tess_new_folder *folder, tess_status status);

#endif
