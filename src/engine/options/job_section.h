/* Options of the job: its folder and its device. */
#ifndef TESS_ENGINE_OPTIONS_JOB_SECTION_H
#define TESS_ENGINE_OPTIONS_JOB_SECTION_H

#include "base/core/options.h"

/* AUTO: what the environment's TESSERA_DEVICE names, else the CPU. */
typedef enum tess_device_choice {
    TESS_DEVICE_AUTO,
    TESS_DEVICE_CPU,
    TESS_DEVICE_FAR,
    TESS_DEVICE_CUDA
} tess_device_choice;

/* AUTO: what the environment's TESSERA_SHARDS names, else what shards.h finds. */
typedef enum tess_shards_choice { TESS_SHARDS_AUTO, TESS_SHARDS_HOST, TESS_SHARDS_DEVICE } tess_shards_choice;

/* clang-format off */
#define TESS_JOB_OPTIONS(OPTION)                                                                                       \
    OPTION(PATH, job, dump_folder, CALLS, "out", "folder for everything that the run writes")                          \
    OPTION(BOOL, job, reload, NOTHING, "false",                                                                        \
           "read the configuration again when its file changes, and take over keys that decide nothing")               \
    OPTION(INT, job, reload_step, NOTHING, "0", 0, 1e12,                                                               \
           "step after which all ranks take over a changed file (job.reload), as if the run had ended there and "   \
           "begun again; 0: at once, which is for keys that decide nothing")                                           \
    OPTION(TEXT, job, description, NOTHING, "", "a line for people, shown when the run starts")                        \
    OPTION(PATH, job, log_dir, NOTHING, "",                                                                            \
           "folder of what ranks print, as attempt_0/RANK/stdout.log and stderr.log; empty: logs in job.dump_folder, " \
           "for all ranks but the first, which has the terminal (docs/howto/logs.md)")                                 \
    OPTION(TEXT, job, log_redirects, NOTHING, "",                                                                      \
           "streams that are kept and not shown: 1 standard output, 2 standard error, 3 both, 0 none; by local rank: " \
           "0:1,1:3")                                                                                                  \
    OPTION(TEXT, job, log_tee, NOTHING, "", "streams that are kept and shown, in the same form")                       \
    OPTION(TEXT, job, log_ranks, NOTHING, "", "local ranks whose kept streams are shown, like 0,3; empty: all")        \
    OPTION(BYTES, job, log_max_size, NOTHING, "16MiB", 4096, INT64_MAX / 2,                                            \
           "size at which a file of a rank's output is rotated")                                                       \
    OPTION(INT, job, log_kept, NOTHING, "2", 0, 1000, "rotated files that stay for each stream of a rank")             \
    /* tess_device_choice */                                                                                           \
    OPTION(CHOICE, job, device, LAYOUT_AND_BITS, "auto", "auto|cpu|far|cuda",                                          \
           "device that computes the model; auto: cpu; cuda: NVIDIA GPUs (docs/gpu.md); far: the CPU behind a "        \
           "queue, to find errors that a GPU would show")                                                              \
    /* tess_shards_choice */                                                                                           \
    OPTION(CHOICE, job, shards, LAYOUT, "auto", "auto|host|device",                                                    \
           "memory that holds weights, gradients and moments; auto: the GPU's, if they fit and all options work "      \
           "there, else the host's (docs/gpu.md)")                                                                     \
    OPTION(BOOL, job, ignore_memory, NOTHING, "false",                                                                 \
           "start even if the available memory does not seem to suffice")
/* clang-format on */

typedef struct tess_job_section {
    TESS_JOB_OPTIONS(TESS_OPTION_FIELD)
} tess_job_section;

extern const tess_option_section tess_section_job;

#endif
