/* `tessera tokenize template`: prints the text that a chat template makes of a conversation. */
#ifndef TESS_CLI_TOKENIZE_TEMPLATE_H
#define TESS_CLI_TOKENIZE_TEMPLATE_H

#include "tessera/memory.h"

/* Renders a conversation and prints the text.
 * - path: a template, or a model's folder.
 * - conversation: a JSON file with a list of messages, or with an object. The object has messages, tools, documents,
 * add_generation_prompt, and further variables of the template.
 * - spans: prints JSON that also has the byte ranges of the generation blocks.
 * - now_s: what strftime_now returns. */
tess_status cli_tokenize_template(tess_mem *mem, const char *path, const char *conversation, bool spans, int64_t now_s);

#endif
