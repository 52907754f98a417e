/* Options of the text to train on and of its tokenizer. */
#ifndef TESS_DATA_FILES_DATA_SECTION_H
#define TESS_DATA_FILES_DATA_SECTION_H

#include "base/core/options.h"

/* Whether documents begin with a bos token. AUTO: the tokenizer's template decides. */
typedef enum tess_add_bos { TESS_ADD_BOS_AUTO, TESS_ADD_BOS_TRUE, TESS_ADD_BOS_FALSE } tess_add_bos;

typedef struct tess_tokenizer_section {
    char path[TESS_TEXT_SIZE];
    int64_t vocab_size;
} tess_tokenizer_section;

typedef struct tess_data_section {
    tess_text_list files, weights;
    int format; /* tess_data_format */
    int64_t end_token;
    char text_key[TESS_TEXT_SIZE], prompt_key[TESS_TEXT_SIZE], completion_key[TESS_TEXT_SIZE];
    char chat_template[TESS_TEXT_SIZE];
    bool shuffle;
    int split;   /* tess_split */
    int add_bos; /* tess_add_bos */
} tess_data_section;

extern const tess_option_section tess_section_tokenizer;
extern const tess_option_section tess_section_data;

#endif
