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

typedef struct tess_job_section {
    char dump_folder[TESS_TEXT_SIZE];
    char description[TESS_TEXT_SIZE];
    int device; /* tess_device_choice */
    int shards; /* tess_shards_choice */
    bool ignore_memory;
} tess_job_section;

extern const tess_option_section tess_section_job;

#endif
