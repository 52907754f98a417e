/* A conversation with a model: its messages, and the answer to the newest. Each turn reads only what the keys and
 * values of the turn before do not hold. */
#ifndef TESS_CLI_CHAT_TALK_H
#define TESS_CLI_CHAT_TALK_H

#include <signal.h>

#include "data/conversation/conversation.h"
#include "infer/generate.h"
#include "train/text/model_folder.h"

/* Set the first part; chat_talk_open does the rest. */
typedef struct chat_talk {
    tess_mem *mem;
    tess_model_folder *m;
    const tess_chat *how;
    const tess_sampling *sampling;
    int64_t max_new_tokens, length; /* most tokens of an answer; of a conversation with it */
    /* Not 0: the answer ends after the token that is being computed. A signal may set it. */
    volatile sig_atomic_t *stop;

    tess_generator *generator;
    tess_encoder *encoder;
    int64_t ends[9]; /* tokens that end an answer: the model's, and what its template ends a turn with */
    int n_ends;
    json_t *messages;

    tess_ids ids;    /* tokens of the conversation so far, up to where the answer begins */
    tess_ids answer; /* the last id before it, then its own */
    tess_buffer text;
    size_t shown; /* bytes of it that are printed */
    bool asked;
} chat_talk;

/* TESS_E_INVALID: a length that the model does not have. */
tess_status chat_talk_open(chat_talk *talk);
void chat_talk_close(chat_talk *talk);

/* Sets the system message; an empty text removes it. */
tess_status chat_talk_set_system(chat_talk *talk, const char *text);
/* Forgets all messages but the system's. */
tess_status chat_talk_reset(chat_talk *talk);
/* Prints the answer to `text` as it grows, whole characters only, with a line end, and keeps both as messages. After an
 * error neither is kept. TESS_E_INVALID: the template refuses them, or the conversation has become too long. */
tess_status chat_talk_ask(chat_talk *talk, const char *text, size_t size);
/* Appends the conversation to a file, as a line of data.files. TESS_E_INVALID: no message yet. */
tess_status chat_talk_save(const chat_talk *talk, const char *path);

#endif
