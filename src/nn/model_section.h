/* Options of the model, of an adapter, and of the activations that its layers keep. */
#ifndef TESS_NN_MODEL_SECTION_H
#define TESS_NN_MODEL_SECTION_H

#include "base/core/options.h"

typedef struct tess_model_section {
    char config[TESS_TEXT_SIZE];
    char path[TESS_TEXT_SIZE];
    int save_dtype; /* tess_precision */
    int64_t max_length, sum_leaves;
    bool value_head; /* no key: the task's check sets it */
} tess_model_section;

typedef struct tess_lora_section {
    char path[TESS_TEXT_SIZE];
    int64_t rank;
    double alpha, dropout;
    bool use_rslora;
    tess_text_list targets;
} tess_lora_section;

typedef struct tess_activation_checkpoint_section {
    int mode; /* tess_recompute */
    int64_t every_n;
    tess_text_list recompute; /* see tess_activation_groups */
    int64_t budget;
    bool partition;
} tess_activation_checkpoint_section;

/* TESS_E_INVALID: neither model.config nor model.path is set, or both are. */
tess_status tess_model_section_check(const tess_model_section *model);

/* activation_checkpoint.recompute's words, in the order of tess_layer_group. */
extern const char *const tess_group_names[];
/* Reads activation_checkpoint.recompute as a set of tess_layer_group; empty: all. TESS_E_INVALID: an unknown word. */
tess_status tess_activation_groups(const tess_activation_checkpoint_section *activations, unsigned *groups);

/* TESS_E_INVALID: settings that contradict each other. `shares_layers`: several ranks compute a layer. */
tess_status tess_activation_checkpoint_check(const tess_activation_checkpoint_section *activations, bool shares_layers);

extern const tess_option_section tess_section_model;
extern const tess_option_section tess_section_lora;
extern const tess_option_section tess_section_activation_checkpoint;

#endif
