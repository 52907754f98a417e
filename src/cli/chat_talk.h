/* A conversation with a model: its messages, and the generation of answers. The model keeps the keys and values of
 * earlier turns, so each turn reads only the tokens that are new. */
#ifndef TESS_CLI_CHAT_TALK_H
#define TESS_CLI_CHAT_TALK_H

#include <signal.h>

#include "data/conversation/conversation.h"
#include "infer/generate.h"
#include "train/text/model_folder.h"

/* The caller sets the members before the blank line; chat_talk_open sets the others. */
typedef struct chat_talk {
    tess_mem *mem;
    tess_model_folder *m;
    const tess_chat *how;
    const tess_sampling *sampling;
    int64_t max_new_tokens, length; /* maximum number of tokens in an answer; in the conversation with its answer */
    /* If not 0, the answer ends after the token that is being computed. A signal handler may set it. */
    volatile sig_atomic_t *stop;

    tess_generator *generator;
    tess_encoder *encoder;
    int64_t ends[9]; /* tokens that end an answer: the model's, and the one with which the template ends a turn */
    int n_ends;
    json_t *messages;

    tess_ids ids;    /* tokens of the conversation up to the beginning of the answer */
    tess_ids answer; /* the ids before the answer with which its text is decoded, then the ids of the answer */
    size_t n_before; /* number of ids in `answer` before those of the answer */
    tess_buffer text;
    size_t shown; /* number of bytes of `text` already printed */
    bool asked;
} chat_talk;

/* Returns TESS_E_INVALID if the model does not support the length. */
tess_status chat_talk_open(chat_talk *talk);
void chat_talk_close(chat_talk *talk);

/* Sets the system message; an empty text removes it. */
tess_status chat_talk_set_system(chat_talk *talk, const char *text);
/* Removes all messages except the system message. */
tess_status chat_talk_reset(chat_talk *talk);
/* Sends `text` and prints the answer as it grows, only whole characters, then a line end. Keeps both as messages;
 * after an error, keeps neither. Returns TESS_E_INVALID if the template refuses the messages, or if the conversation
 * is too long. */
tess_status chat_talk_ask(chat_talk *talk, const char *text, size_t size);
/* Appends the conversation to a file, as a line in the format of data.files. Returns TESS_E_INVALID if there is no
 * message yet. */
tess_status chat_talk_save(const chat_talk *talk, const char *path);

#endif
