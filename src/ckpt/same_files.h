/* Checks that files which every rank reads from its own host are the same on all hosts. */
#ifndef TESS_CKPT_SAME_FILES_H
#define TESS_CKPT_SAME_FILES_H

#include "ckpt/ckpt_hosts.h"

/* Compares the size and the first and last 64 KiB of each file between hosts. In a folder it compares weight files and
 * descriptions (config.json, ...), with their names. Collective over hosts->all with the same `paths`; all ranks return
 * the same status. Does nothing if there is only one host. `what` names the files in messages ("data.files").
 * TESS_E_NOT_FOUND, TESS_E_INVALID: the message names the path and the first host that differs from host 0. */
tess_status tess_ckpt_check_same_files(const tess_ckpt_hosts *hosts, const char *const *paths, int n, const char *what);

#endif
