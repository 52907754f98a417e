/* Lists the checkpoints of a folder, in any format. Reads only names, sizes and headers, no tensors. */
#ifndef TESS_CKPT_TOOLS_LIST_H
#define TESS_CKPT_TOOLS_LIST_H

#include "tessera/memory.h"

typedef enum tess_ckpt_state {
    TESS_CKPT_VALID,
    TESS_CKPT_INCOMPLETE, /* a save that did not finish */
    TESS_CKPT_DAMAGED,    /* was complete, but something is missing, cut short or malformed now */
    TESS_CKPT_UNKNOWN     /* this version does not read its format, or it cannot be read now */
} tess_ckpt_state;

const char *tess_ckpt_state_text(tess_ckpt_state state); /* "valid", ... */

typedef struct tess_ckpt_item {
    char name[256];   /* name in the folder; ".": the folder itself is a checkpoint */
    char format[24];  /* tess_catalog.format; "": it could not be opened */
    int64_t step;     /* -1: not stated */
    uint64_t bytes;   /* total size of its files */
    double changed_s; /* time of the newest of its files, in seconds since 1970 */
    tess_ckpt_state state;
    bool newest;       /* the valid checkpoint with the highest step */
    char problem[512]; /* the problem; "" if it is valid */
} tess_ckpt_item;

typedef struct tess_ckpt_list {
    tess_mem *mem;
    char folder[4096];
    tess_ckpt_item *items; /* sorted by step, then by name */
    int n;
    size_t capacity;
} tess_ckpt_list;

/* Lists folders named "step-N", "iter_N", "global_stepN" and "checkpoint-N", also with the suffix of an unfinished
 * save. If there are none, lists the folder itself. If the path is a file, lists that file. Free `list` after success.
 * Thread-safe. TESS_E_NOT_FOUND: no such folder, or no checkpoint in it (the message says what was searched). */
tess_status tess_ckpt_list_read(tess_mem *mem, const char *folder, tess_ckpt_list *list);
void tess_ckpt_list_free(tess_ckpt_list *list);

/* Formats "<folder>/<name>" of an item. */
tess_status tess_ckpt_item_path(const tess_ckpt_list *list, const tess_ckpt_item *item, char *path, size_t size);

#endif
