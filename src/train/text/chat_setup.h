/* The chat template of a run or an evaluation. */
#ifndef TESS_TRAIN_TEXT_CHAT_SETUP_H
#define TESS_TRAIN_TEXT_CHAT_SETUP_H

#include "base/core/reporter.h"
#include "data/conversation/conversation.h"

/* A chat template and what writes with it. */
typedef struct tess_chat_setup {
    tess_chat_template *chat;     /* NULL: there is none, or it cannot be used (how.problem) */
    tess_chat_template *training; /* NULL: none is known, or tess_chat_setup_train was not called */
    tess_chat how;                /* borrows the others */
} tess_chat_setup;
/* Reads the template at `path`, a file or a model's folder. If the path is empty, it reads that in `folder`, if there
 * is one. The tokenizer is borrowed; its special tokens are the template's. The date that a template sees is 26 July
 * 2024, always. An error of the template at `path` is returned. One of the template in `folder` is reported when a
 * conversation is met. */
tess_status tess_chat_setup_open(tess_mem *mem, const char *path, const char *folder, const tess_tokenizer *tokenizer,
                                 tess_chat_setup *setup);
/* Lets a training template stand in for that of a family that has one, and says so (reporter NULL: to nobody). */
tess_status tess_chat_setup_train(tess_mem *mem, tess_chat_setup *setup, const tess_reporter *reporter);
void tess_chat_setup_close(tess_chat_setup *setup);

#endif
