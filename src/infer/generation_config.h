/* Reads generation_config.json of a model's folder: the sampling that its authors recommend, and the tokens that end
 * a text. */
#ifndef TESS_INFER_GENERATION_CONFIG_H
#define TESS_INFER_GENERATION_CONFIG_H

#include <jansson.h>

#include "infer/sampler.h"

typedef struct tess_generation_config {
    tess_sampling sampling; /* negative values, and a seed of 0: not in the file */
    int64_t max_new_tokens; /* negative: not in the file */
    int64_t end_tokens[8];
    int n_end;         /* 0: not in the file; use those of config.json */
    char ignored[256]; /* "typical_p, num_beams": settings of the file that Tessera does not support */
} tess_generation_config;

/* Parses the file. If it has any sampling key, absent keys have transformers' defaults: temperature 1, top_k 50,
 * top_p 1. do_sample false means temperature 0.
 * TESS_E_FORMAT: the message names `what` and the key */
tess_status tess_generation_config_parse(const json_t *json, const char *what, tess_generation_config *config);
/* Reads the file in `folder`. If there is no file, all values are as if not in the file. */
tess_status tess_generation_config_load(const char *folder, tess_generation_config *config);

#endif
