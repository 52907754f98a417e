/* Architectures that have a name: "gpt2-124m". Such a name is never taken for a file, so that all hosts of a job mean
 * the same; a file of this name is "./gpt2-124m". */
#ifndef TESS_NN_NAMED_MODELS_H
#define TESS_NN_NAMED_MODELS_H

#include <stddef.h>

/* Returns the text of a named model's config.json; NULL: no model has this name. */
const char *tess_named_model(const char *name);
/* Writes the names, separated by commas. Returns text. */
const char *tess_named_models_list(char *text, size_t size);

#endif
