/* Prompts of a rollout, and pairs of preferences: lines of jsonl, all of them in memory, tokenized.
 *
 * A line is an object with
 *   prompt            a string, or a list of messages; or messages instead of it, with tools or without
 *   label             (or answer, or ground_truth) what a reward compares with: a string, or any JSON, as compact JSON
 *   metadata          anything, for the reward
 *   chosen, rejected  two completions of the prompt, the better one first (DPO): strings, or lists of messages. Whole
 *                     conversations have their common beginning as the prompt; then the prompt may be missing
 * A prompt that is a string is tokenized as a text is: the bos, then its ids; a completion is its ids, then the eos. A
 * prompt is never tokenized together with what follows it, so its ids are what a policy saw. Messages are written by
 * the chat template, up to where the assistant's answer begins, and what it writes is all: no bos, no eos. A completion
 * of messages is what the template adds to the prompt for them. Blank lines are skipped. Immutable once open: safe to
 * read from several threads. */
#ifndef TESS_DATA_CONVERSATION_PROMPTS_H
#define TESS_DATA_CONVERSATION_PROMPTS_H

#include <jansson.h>

#include "data/conversation/conversation.h"

typedef struct tess_prompts_options {
    const char *const *files;
    int n_files;
    const char *prompt_key;          /* NULL: "prompt", or else "messages" */
    const char *label_key;           /* NULL: the first of "label", "answer", "ground_truth" that a line has */
    bool pairs;                      /* read chosen and rejected, which each line must have */
    const tess_tokenizer *tokenizer; /* borrowed while tess_prompts_open runs */
    const tess_chat *chat;           /* writes messages, borrowed likewise; NULL: they are refused */
    tess_prefix bos;                 /* begins each prompt that is a string */
    int32_t eos_id;                  /* ends chosen and rejected; -1: none */
    int64_t max_prompt_tokens;       /* longer prompts are dropped and counted; 0: no limit */
    int64_t max_tokens; /* pairs: of a prompt and either completion; longer ones are dropped; 0: no limit */
} tess_prompts_options;

typedef struct tess_prompt_record {
    const char *text; /* (size) of the prompt, NUL-terminated */
    size_t size;
    const int32_t *ids; /* (n), at least one */
    int64_t n;
    const char *label; /* (label_size), NUL-terminated; NULL: none */
    size_t label_size;
    const json_t *metadata;           /* NULL: none */
    const int32_t *chosen, *rejected; /* NULL: options.pairs was false */
    int64_t n_chosen, n_rejected;
} tess_prompt_record;

typedef struct tess_prompts tess_prompts;

/* Reads all lines of all files, in order. TESS_E_INVALID: no files, no prompt in them, or all are dropped.
 * TESS_E_NOT_FOUND, TESS_E_IO: the message names the file. TESS_E_FORMAT: a bad line, by file and line. */
tess_status tess_prompts_open(tess_mem *mem, const tess_prompts_options *options, tess_prompts **prompts);
void tess_prompts_close(tess_prompts **prompts);

int64_t tess_prompts_count(const tess_prompts *prompts);
int64_t tess_prompts_dropped(const tess_prompts *prompts);
/* Record i, 0 <= i < count, valid until close. */
const tess_prompt_record *tess_prompts_at(const tess_prompts *prompts, int64_t i);
/* A hash of all that the records hold, in their order. */
uint64_t tess_prompts_hash(const tess_prompts *prompts);

#endif
