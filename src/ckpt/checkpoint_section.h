/* Options for saving and resuming. */
#ifndef TESS_CKPT_CHECKPOINT_SECTION_H
#define TESS_CKPT_CHECKPOINT_SECTION_H

#include "base/core/options.h"

typedef enum tess_on_damage { TESS_DAMAGE_STOP, TESS_DAMAGE_PREVIOUS } tess_on_damage;
typedef enum tess_on_save_error { TESS_SAVE_ERROR_WARN, TESS_SAVE_ERROR_STOP } tess_on_save_error;

/* clang-format off */
#define TESS_CHECKPOINT_OPTIONS(OPTION)                                                                                \
    OPTION(BOOL, checkpoint, enable, CALLS, "true", "save at intervals and when interrupted")                          \
    OPTION(PATH, checkpoint, folder, CALLS, "checkpoint", "folder of the checkpoints, inside job.dump_folder")         \
    OPTION(INT, checkpoint, interval, CALLS, "500", 1, 1e12, "steps between saves")                                    \
    OPTION(INT, checkpoint, keep_latest_k, CALLS, "2", 0, 1e6, "number of complete checkpoints to keep; 0: all")       \
    OPTION(BOOL, checkpoint, resume, BITS, "true", "resume from the newest complete checkpoint in the folder")         \
    OPTION(BOOL, checkpoint, host_local, CALLS, "false",                                                               \
           "each host has its own job.dump_folder, and stores the rows of its ranks there")                            \
    OPTION(BOOL, checkpoint, async, CALLS, "true",                                                                     \
           "training waits only while its state is copied; another process writes the copy, which takes as much "      \
           "memory again")                                                                                             \
    /* tess_precision */                                                                                               \
    OPTION(CHOICE, checkpoint, weights_dtype, BITS, "float32", "bfloat16|float32",                                     \
           "dtype of saved weights; bfloat16 is smaller, but a resumed run computes other bits")                       \
    /* tess_codec: none or zstd */                                                                                     \
    OPTION(CHOICE, checkpoint, compress, CALLS, "none", "none|zstd", "compression of the data")                        \
    OPTION(BOOL, checkpoint, direct_io, NOTHING, "true", "write past the page cache where the file system can")        \
    /* tess_on_save_error */                                                                                           \
    OPTION(CHOICE, checkpoint, on_error, CALLS, "warn", "warn|stop",                                                   \
           "reaction to a checkpoint that cannot be written: warn and continue, or end the run; a failure of the "     \
           "last one always ends it")                                                                                  \
    OPTION(BOOL, checkpoint, memory_copies, CALLS, "false",                                                            \
           "ranks on one host keep their state in /dev/shm until the run is finished: the same command goes on "       \
           "from the last step after whatever ended it")                                                               \
    OPTION(FLOAT, checkpoint, emergency_grace_s, CALLS, "120", 0, 1e6,                                                 \
           "seconds to finish the step and save after SIGTERM, SIGINT or SIGUSR1, until the ranks are killed; 0: "     \
           "never")                                                                                                    \
    OPTION(PATHS, checkpoint, copies, NOTHING,                                                                         \
           "folders on other disks or hosts that get a copy of each checkpoint; a run starts from the newest good "    \
           "one of all places")                                                                                        \
    OPTION(PATHS, checkpoint, copy_command, NOTHING,                                                                   \
           "words of a program that stores and returns copies elsewhere (docs/recovery.md); empty: none")              \
    OPTION(BOOL, checkpoint, copy_check, NOTHING, "true",                                                              \
           "get each copy back from copy_command and compare its checksums")                                           \
    OPTION(FLOAT, checkpoint, copy_wait_s, NOTHING, "120", 0.1, 1e6,                                                   \
           "seconds that a start waits for a place of copies that does not answer, that one copy may show no "         \
           "progress, and that copies have after the end of a run")                                                    \
    OPTION(INT, checkpoint, load_step, BITS, "-1", -1, 1e12,                                                           \
           "resume from this step, and set newer checkpoints aside; -1: the newest")                                   \
    /* tess_on_damage */                                                                                               \
    OPTION(CHOICE, checkpoint, on_damage, BITS, "stop", "stop|previous",                                               \
           "if the checkpoint to resume from is damaged: stop and name the previous one, or resume from that")         \
    OPTION(                                                                                                            \
        LIST, checkpoint, exclude_from_loading, BITS,                                                                  \
        "parts that are not loaded and restart: optimizer, lr_scheduler, data, or names of tensors with * and ?")      \
    OPTION(PATH, checkpoint, initial_load_path, BITS, "",                                                              \
           "checkpoint or model of any format (docs/checkpoint-formats.md) to start from while this run has no "       \
           "checkpoint of its own")                                                                                    \
    OPTION(                                                                                                            \
        BOOL, checkpoint, initial_load_model_only, BITS, "true",                                                       \
        "load only the weights from initial_load_path; false: continue as that run would (Tessera's checkpoints)")
/* clang-format on */

typedef struct tess_checkpoint_section {
    TESS_CHECKPOINT_OPTIONS(TESS_OPTION_FIELD)
} tess_checkpoint_section;

extern const tess_option_section tess_section_checkpoint;

#endif
