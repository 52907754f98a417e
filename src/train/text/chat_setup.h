/* Opens the chat template that a run or an evaluation uses. */
#ifndef TESS_TRAIN_TEXT_CHAT_SETUP_H
#define TESS_TRAIN_TEXT_CHAT_SETUP_H

#include "base/core/reporter.h"
#include "data/conversation/conversation.h"

/* A chat template and the objects that it needs to write conversations. */
typedef struct tess_chat_setup {
    tess_chat_template *chat;     /* NULL: there is no template, or it cannot be used (how.problem says why) */
    tess_chat_template *training; /* NULL: none is known, or tess_chat_setup_train was not called */
    tess_chat how;                /* borrows the two templates and the tokenizer */
} tess_chat_setup;
/* Opens the chat template at `path`, which names a file or a model's folder. If `path` is empty, opens the template
 * in `folder`, if there is one. Borrows the tokenizer and gives its special tokens to the template. The date in a
 * template is always 26 July 2024. An error in the template at `path` is returned. An error in the template in
 * `folder` is reported when a conversation is read. */
tess_status tess_chat_setup_open(tess_mem *mem, const char *path, const char *folder, const tess_tokenizer *tokenizer,
                                 tess_chat_setup *setup);
/* Replaces the template by the training template of its family, if there is one, and reports that (reporter NULL:
 * silently). */
tess_status tess_chat_setup_train(tess_mem *mem, tess_chat_setup *setup, const tess_reporter *reporter);
void tess_chat_setup_close(tess_chat_setup *setup);

#endif
