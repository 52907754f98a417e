/* Options of the text to train on and of its tokenizer. */
#ifndef TESS_DATA_FILES_DATA_SECTION_H
#define TESS_DATA_FILES_DATA_SECTION_H

#include "base/core/options.h"

/* Whether documents begin with a bos token. AUTO: the tokenizer's template decides. */
typedef enum tess_add_bos { TESS_ADD_BOS_AUTO, TESS_ADD_BOS_TRUE, TESS_ADD_BOS_FALSE } tess_add_bos;

/* clang-format off */
#define TESS_TOKENIZER_OPTIONS(OPTION)                                                                                 \
    OPTION(PATH, tokenizer, path, BITS, "",                                                                            \
           "tokenizer.json, or a folder with it or with vocab.json and merges.txt; empty: model.path's, or train a "   \
           "new one")                                                                                                  \
    OPTION(INT, tokenizer, vocab_size, BITS, "0", 0, 1e6,                                                              \
           "size of the byte-level BPE to train on the data when there is no tokenizer; 0: the model's vocab_size")
/* clang-format on */

typedef struct tess_tokenizer_section {
    TESS_TOKENIZER_OPTIONS(TESS_OPTION_FIELD)
} tess_tokenizer_section;

/* clang-format off */
#define TESS_DATA_OPTIONS(OPTION)                                                                                      \
    OPTION(PATHS, data, files, BITS,                                                                                   \
           "text, JSON lines or arrays with a document in each record, or shards of token ids; patterns such as "      \
           "web/*.bin; a name with a comma in quotes: '\"a,b.txt\",c.txt'")                                            \
    OPTION(LIST, data, weights, BITS,                                                                                  \
           "share of training rows for each entry of data.files; empty: all entries are one text")                     \
    /* tess_data_format */                                                                                             \
    OPTION(CHOICE, data, format, BITS, "auto", "auto|text|uint16|uint32",                                              \
           "content of a .bin file that does not record its format: uint16: token ids as nanoGPT writes them; "        \
           "auto: refused")                                                                                            \
    OPTION(INT, data, end_token, BITS, "-1", -1, 1 << 22,                                                              \
           "id that ends each document in shards of llm.c or nanoGPT; -1: the eos_token of the tokenizer, or else "    \
           "of config.json")                                                                                           \
    OPTION(TEXT, data, text_key, BITS, "text", "member of each JSON record that holds the document")                   \
    OPTION(TEXT, data, prompt_key, BITS, "prompt",                                                                     \
           "member of a record that holds its prompt, in records without data.text_key; only the completion is "       \
           "trained on")                                                                                               \
    OPTION(TEXT, data, completion_key, BITS, "completion",                                                             \
           "member of a record that holds the completion of its prompt")                                               \
    OPTION(                                                                                                            \
        PATH, data, chat_template, BITS, "",                                                                           \
        "chat template for lines with messages: a .jinja file or a model's folder; empty: the one in model.path")      \
    /* tess_split */                                                                                                   \
    OPTION(CHOICE, data, split, BITS, "auto", "auto|true|false",                                                       \
           "continue a document that does not fit in a row in the next row; auto: texts do, completions do not")       \
    OPTION(BOOL, data, shuffle, BITS, "true", "visit the rows of an epoch in a random order")                          \
    /* tess_add_bos */                                                                                                 \
    OPTION(CHOICE, data, add_bos, BITS, "auto", "auto|true|false",                                                     \
           "begin each document with the bos token; auto: if the tokenizer's template (post_processor) does")
/* clang-format on */

typedef struct tess_data_section {
    TESS_DATA_OPTIONS(TESS_OPTION_FIELD)
} tess_data_section;

extern const tess_option_section tess_section_tokenizer;
extern const tess_option_section tess_section_data;

#endif
