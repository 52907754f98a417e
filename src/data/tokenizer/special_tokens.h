/* Reads the names of a tokenizer's special tokens (bos_token, eos_token and others) from the files next to
 * tokenizer.json, which has no such names. */
#ifndef TESS_DATA_TOKENIZER_SPECIAL_TOKENS_H
#define TESS_DATA_TOKENIZER_SPECIAL_TOKENS_H

#include <jansson.h>
#include <stdbool.h>

#include "tessera/status.h"

/* The names, NULL-terminated. */
extern const char *const tess_special_token_names[];

/* Reads the names in tokenizer_config.json and special_tokens_map.json. `path` is their folder, or a file next to them.
 * As in transformers, the second file replaces what the first says; but if the first has an added_tokens_decoder, the
 * second is not read.
 * *tokens: an object (json_decref) of names and texts; empty if the files name none or do not exist.
 * *has_config: whether there is a tokenizer_config.json. May be NULL.
 * TESS_E_FORMAT: a file is not JSON, or a token is neither a text nor an object with a content. */
tess_status tess_special_tokens_read(const char *path, json_t **tokens, bool *has_config);

#endif
