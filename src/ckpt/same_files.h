/* Whether files that every rank reads from its own host are the same on all hosts. */
#ifndef TESS_CKPT_SAME_FILES_H
#define TESS_CKPT_SAME_FILES_H

#include "ckpt/ckpt_hosts.h"

/* Compares size and the first and last 64 KB of each path between hosts; of a folder those of its safetensors files and
 * of its config.json, with their names. Collective over hosts->all with the same `paths`, one answer for all; nothing
 * is asked on one host. `what` names them ("data.files").
 * TESS_E_NOT_FOUND, TESS_E_INVALID: the message names the path and the first host that differs from the first one. */
tess_status tess_ckpt_check_same_files(const tess_ckpt_hosts *hosts, const char *const *paths, int n, const char *what);

#endif
