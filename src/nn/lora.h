/* Low-rank adapters (LoRA, Hu et al., arXiv:2106.09685), in PEFT's terms: which linear maps have one, and its size.
 * A map y = x W + b with an adapter computes y = x W + b + scale (x A^T) B^T, with A (rank, in) and B (out, rank). */
#ifndef TESS_NN_LORA_H
#define TESS_NN_LORA_H

#include <jansson.h>

#include "tessera/memory.h"

enum { TESS_LORA_TARGETS = 128, TESS_LORA_NAME = 96, TESS_LORA_MAX_RANK = 65536, TESS_LORA_SOURCE = 256 };

typedef struct tess_lora {
    int64_t rank; /* rank of all adapters; 0: no adapters */
    double alpha;
    bool rslora; /* true: the scale is alpha / sqrt(rank); false: alpha / rank */
    int n_targets;
    /* The end of a map's name, such as "q_proj"; or "all-linear" as the only entry */
    char targets[TESS_LORA_TARGETS][TESS_LORA_NAME];
    /* The name of the option or file that gave the targets, for messages: "lora.targets" */
    char source[TESS_LORA_SOURCE];
} tess_lora;

double tess_lora_scale(const tess_lora *lora);

/* Whether the map of this name ("model.layers.0.self_attn.q_proj") has an adapter. It does if a target is its name,
 * or the end of its name after a dot. */
bool tess_lora_adapts(const tess_lora *lora, const char *name);

/* Appends a target.
 * TESS_E_INVALID: too many, too long, empty, or all-linear together with others; the message names `key` */
tess_status tess_lora_add_target(tess_lora *lora, const char *target, const char *key);

/* Checks an adapter. TESS_E_INVALID: the rank, alpha or list of targets is out of range; the message names `what` */
tess_status tess_lora_check(const tess_lora *lora, const char *what);

/* Reads PEFT's adapter_config.json. `what` names it in messages.
 * TESS_E_FORMAT: not such a file, or a value out of range
 * TESS_E_UNSUPPORTED: the adapter has more than A and B on linear maps; the message names the feature */
tess_status tess_lora_parse(const json_t *json, const char *what, tess_lora *lora);
/* Reads folder/adapter_config.json like tess_lora_parse. TESS_E_NOT_FOUND: no such file. */
tess_status tess_lora_load(const char *folder, tess_lora *lora);

/* Creates a JSON object as PEFT writes it.
 * base: the model's name or path
 * in_out: the adapted maps are stored (in, out), as GPT-2's Conv1D
 * TESS_E_NOMEM: memory ran out */
tess_status tess_lora_to_json(const tess_lora *lora, const char *base, bool in_out, json_t **json);

#endif
