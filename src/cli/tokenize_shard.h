/* `tessera tokenize shard`: converts text files to a shard of token ids. */
#ifndef TESS_CLI_TOKENIZE_SHARD_H
#define TESS_CLI_TOKENIZE_SHARD_H

#include "tessera/memory.h"

typedef struct cli_shard_options {
    const char *tokenizer, *const *files, *out;
    int n_files;
    const char *text_key, *prompt_key, *completion_key, *chat_template; /* NULL: not given */
    const char *format, *end_token;                                     /* NULL: the default, tessera; <|endoftext|> */
    int64_t threads;                                                    /* 0: all cores */
} cli_shard_options;

tess_status cli_tokenize_shard(tess_mem *mem, const cli_shard_options *options);

#endif
