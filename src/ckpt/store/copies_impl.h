/* Definitions that the files of copies share. */
#ifndef TESS_CKPT_STORE_COPIES_IMPL_H
#define TESS_CKPT_STORE_COPIES_IMPL_H

#include "ckpt/store/copy_apart.h"
#include "ckpt/store/copies.h"

enum { COPY_NAME = 64 };

/* Formats "step-00000012". */
void copy_name(int64_t step, char name[COPY_NAME]);
/* Sorts a list of steps, newest first. */
void copy_sort(tess_ckpt_place_steps *steps);
/* Whether `dir` has set the step aside and has no checkpoint of it. */
bool copy_is_aside(const char *dir, int64_t step);

/* Verifies every byte of the checkpoint in `folder`, whatever its name. `apart` may be NULL. */
tess_status copy_verify(const char *folder, int64_t step, copy_apart *apart);
/* Copies every file of the checkpoint in `from` into `to`, an empty folder, the marker last, and syncs. `io`: hooks for
 * looks at `from`. */
tess_status copy_files(const tess_io *io, const char *from, const char *to, copy_apart *apart);
/* Makes `to`, with hard links of the files in `from`. TESS_E_UNSUPPORTED: the file system has no hard links. */
tess_status copy_link_files(const char *from, const char *to);

/* ---- copy_record.c ---- */
/* Whether the program of the place has stored this checkpoint, which is in `folder`, as the last one from `dir`. */
bool copy_record_has(const tess_ckpt_place *place, const char *dir, const char *scratch, const char *folder,
                     int64_t step);
void copy_record_write(const tess_ckpt_place *place, const char *dir, const char *scratch, const char *folder,
                       int64_t step);

/* ---- copy_command.c: places with a program ---- */
tess_status copy_command_list(const tess_ckpt_place *place, tess_ckpt_place_steps *steps);
/* `scratch`: a folder for the copy that is read back; removed at the end. */
tess_status copy_command_put(const tess_ckpt_place *place, const char *folder, const char *scratch, int64_t step);
tess_status copy_command_get(const tess_ckpt_place *place, const char *folder, int64_t step);
tess_status copy_command_set_aside(const tess_ckpt_place *place, int64_t step);
tess_status copy_command_remove(const tess_ckpt_place *place, int64_t step);

#endif
