/* Finds a model's chat template: chat_template.jinja in the model's folder, or a member of tokenizer_config.json. */
#ifndef TESS_DATA_TEMPLATE_TEMPLATE_FIND_H
#define TESS_DATA_TEMPLATE_TEMPLATE_FIND_H

#include "data/template/chat_template.h"

/* Parses the template at `path`: a file, or a model's folder. TESS_E_NOT_FOUND: there is none; the message says where
 * it was searched. Also the errors of tess_chat_template_parse. Messages name the file. */
tess_status tess_chat_template_load(tess_mem *mem, const char *path, tess_chat_template **chat);

#endif
