/* Checks when a job starts that a path is one folder shared by all hosts. Otherwise the job would fail hours later,
 * when it saves. */
#ifndef TESS_CKPT_SHARED_FOLDER_H
#define TESS_CKPT_SHARED_FOLDER_H

#include "ckpt/ckpt_hosts.h"

/* Creates `folder` if it is missing, and checks that all hosts see what the first one writes there. Leaves no file in
 * it. Collective over hosts->all; all ranks return the same status. Does nothing if there is only one host. `what`
 * names the folder in messages ("job.dump_folder").
 * TESS_E_INVALID: a host does not see what the first one writes (the message names both). TESS_E_IO, ...: a host cannot
 * write there. */
tess_status tess_ckpt_check_shared_folder(const tess_ckpt_hosts *hosts, const char *folder, const char *what);

#endif
