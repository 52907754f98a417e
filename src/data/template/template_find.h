/* Where a model keeps its chat template: chat_template.jinja in its folder, or tokenizer_config.json. */
#ifndef TESS_DATA_TEMPLATE_TEMPLATE_FIND_H
#define TESS_DATA_TEMPLATE_TEMPLATE_FIND_H

#include "data/template/chat_template.h"

/* Parses the template at `path`: a file, or a model's folder. *variables: an object (json_decref) with what the
 * folder's tokenizer_config.json gives a template: bos_token, eos_token and the other special tokens; empty for a file.
 * TESS_E_NOT_FOUND: there is none, the message says where it was looked for. TESS_E_FORMAT, TESS_E_UNSUPPORTED: also
 * those of tess_chat_template_parse; the message names the file. */
tess_status tess_chat_template_load(tess_mem *mem, const char *path, tess_chat_template **chat, json_t **variables);

#endif
