/* generation_config.json of a model's folder: how its makers mean it to be sampled, and which tokens end a text. */
#ifndef TESS_INFER_GENERATION_CONFIG_H
#define TESS_INFER_GENERATION_CONFIG_H

#include <jansson.h>

#include "infer/sampler.h"

typedef struct tess_generation_config {
    tess_sampling sampling; /* negative values, and a seed of 0: the file says nothing of them */
    int64_t max_new_tokens; /* negative: nothing */
    int64_t end_tokens[8];
    int n_end;         /* 0: none are named, and config.json's hold */
    char ignored[256]; /* "typical_p, num_beams": what the file asks for and Tessera does not do */
} tess_generation_config;

/* A file that speaks of sampling means transformers' defaults where it is silent: temperature 1, top_k 50, top_p 1.
 * do_sample false is a temperature of 0. TESS_E_FORMAT names `what` and the key. */
tess_status tess_generation_config_parse(const json_t *json, const char *what, tess_generation_config *config);
/* Reads the file in `folder`. Without a file, all values are left open. */
tess_status tess_generation_config_load(const char *folder, tess_generation_config *config);

#endif
