/* tessera tokenize template: a conversation as the text that a chat template makes of it. */
#ifndef TESS_CLI_TOKENIZE_TEMPLATE_H
#define TESS_CLI_TOKENIZE_TEMPLATE_H

#include "tessera/memory.h"

/* Prints the text. path: a template or a model's folder. conversation: a file of JSON, a list of messages or an object
 * with messages, tools, documents, add_generation_prompt, and further variables of the template. spans: as JSON, with
 * the places of its generation blocks in bytes. now_s: what strftime_now returns. */
tess_status cli_tokenize_template(tess_mem *mem, const char *path, const char *conversation, bool spans, int64_t now_s);

#endif
