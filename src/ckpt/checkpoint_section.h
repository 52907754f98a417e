/* Options for saving and resuming. */
#ifndef TESS_CKPT_CHECKPOINT_SECTION_H
#define TESS_CKPT_CHECKPOINT_SECTION_H

#include "base/core/options.h"

typedef enum tess_on_damage { TESS_DAMAGE_STOP, TESS_DAMAGE_PREVIOUS } tess_on_damage;
typedef enum tess_on_save_error { TESS_SAVE_ERROR_WARN, TESS_SAVE_ERROR_STOP } tess_on_save_error;

typedef struct tess_checkpoint_section {
    bool enable;
    char folder[TESS_TEXT_SIZE];
    int64_t interval, keep_latest_k;
    bool resume, host_local, memory_copies;
    bool async, direct_io;
    int weights_dtype; /* tess_precision */
    int compress;      /* tess_codec: none or zstd */
    int on_error;      /* tess_on_save_error */
    int64_t load_step;
    int on_damage; /* tess_on_damage */
    tess_text_list exclude_from_loading;
    char initial_load_path[TESS_TEXT_SIZE];
    bool initial_load_model_only;
    double emergency_grace_s;
} tess_checkpoint_section;

extern const tess_option_section tess_section_checkpoint;

#endif
