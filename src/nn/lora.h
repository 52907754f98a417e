/* Low-rank adapters (LoRA, Hu et al., arXiv:2106.09685), in the terms of PEFT: which linear maps have one, and how
 * large. A map y = x W + b that has one is y = x W + b + scale (x A^T) B^T, with A (rank, in) and B (out, rank). */
#ifndef TESS_NN_LORA_H
#define TESS_NN_LORA_H

#include <jansson.h>

#include "tessera/memory.h"

enum { TESS_LORA_TARGETS = 128, TESS_LORA_NAME = 96, TESS_LORA_MAX_RANK = 65536, TESS_LORA_SOURCE = 256 };

typedef struct tess_lora {
    int64_t rank; /* 0: no adapter */
    double alpha;
    bool rslora; /* the scale is alpha / sqrt(rank), else alpha / rank */
    int n_targets;
    char targets[TESS_LORA_TARGETS][TESS_LORA_NAME]; /* "q_proj", or more of a map's name; or "all-linear" alone */
    char source[TESS_LORA_SOURCE]; /* the place that lists the targets, for messages: "lora.targets" */
} tess_lora;

double tess_lora_scale(const tess_lora *lora);

/* Whether the map of this name ("model.layers.0.self_attn.q_proj") has an adapter: one of the targets is its name or
 * the end of it, from a dot on. */
bool tess_lora_adapts(const tess_lora *lora, const char *name);

/* Appends a target. TESS_E_INVALID names `key`: too many, too long, empty, or all-linear among others. */
tess_status tess_lora_add_target(tess_lora *lora, const char *target, const char *key);

/* TESS_E_INVALID names `what`: a rank, alpha or list of targets out of range. */
tess_status tess_lora_check(const tess_lora *lora, const char *what);

/* Reads PEFT's adapter_config.json. `what` names it in messages. TESS_E_FORMAT: not one, or a value out of range;
 * TESS_E_UNSUPPORTED: an adapter that is more than A and B on linear maps, which the message names. */
tess_status tess_lora_parse(const json_t *json, const char *what, tess_lora *lora);
/* The same of folder/adapter_config.json. TESS_E_NOT_FOUND: no such file. */
tess_status tess_lora_load(const char *folder, tess_lora *lora);

/* A new object as PEFT writes it. base: the model's name or path; in_out: the adapted maps are stored (in, out), as
 * GPT-2's Conv1D. TESS_E_NOMEM. */
tess_status tess_lora_to_json(const tess_lora *lora, const char *base, bool in_out, json_t **json);

#endif
