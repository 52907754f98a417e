/* Lists the checkpoints of a folder, of any format, from names, sizes and headers; reads no tensors. */
#ifndef TESS_CKPT_TOOLS_LIST_H
#define TESS_CKPT_TOOLS_LIST_H

#include "tessera/memory.h"

typedef enum tess_ckpt_state {
    TESS_CKPT_VALID,
    TESS_CKPT_INCOMPLETE, /* a save that did not finish */
    TESS_CKPT_DAMAGED,    /* was complete; something is missing, cut short or malformed now */
    TESS_CKPT_UNKNOWN     /* its format is not read by this version, or it cannot be read now */
} tess_ckpt_state;

const char *tess_ckpt_state_text(tess_ckpt_state state); /* "valid", ... */

typedef struct tess_ckpt_item {
    char name[256];   /* name in the folder; ".": the folder is itself a checkpoint */
    char format[24];  /* tess_catalog.format; "" when it could not be opened */
    int64_t step;     /* -1: not stated */
    uint64_t bytes;   /* bytes of its files */
    double changed_s; /* when the newest of them was written, since 1970 */
    tess_ckpt_state state;
    bool newest;       /* the valid one of the highest step */
    char problem[512]; /* "": valid */
} tess_ckpt_item;

typedef struct tess_ckpt_list {
    tess_mem *mem;
    char folder[4096];
    tess_ckpt_item *items; /* by step, then by name */
    int n;
    size_t capacity;
} tess_ckpt_list;

/* Lists folders named "step-N", "iter_N", "global_stepN" and "checkpoint-N", also with the suffix of an unfinished
 * save. If there are none, lists the folder itself. A path of a file lists that file. Free `list` after success.
 * TESS_E_NOT_FOUND: no such folder, or no checkpoint in it (the message says what was searched). Thread-safe. */
tess_status tess_ckpt_list_read(tess_mem *mem, const char *folder, tess_ckpt_list *list);
void tess_ckpt_list_free(tess_ckpt_list *list);

/* Formats "<folder>/<name>" of an item. */
tess_status tess_ckpt_item_path(const tess_ckpt_list *list, const tess_ckpt_item *item, char *path, size_t size);

#endif
