/* Prompts of a rollout, and pairs of preferences: reads lines of jsonl, tokenizes them, and keeps all in memory.
 *
 * A line is an object with these members:
 *   prompt            a string, or a list of messages; or "messages" instead of it, with or without "tools"
 *   label             (or answer, or ground_truth) what a reward compares with: a string, or any JSON, as compact text
 *   metadata          any value, passed to the reward
 *   chosen, rejected  two completions of the prompt, the better one first (DPO): strings, or lists of messages. If both
 *                     are whole conversations, their common beginning is the prompt, which may then be missing
 * A prompt that is a string becomes the bos and its ids; a completion that is a string becomes its ids and the eos. A
 * prompt is never tokenized together with what follows it, so its ids are those that a policy saw. The chat template
 * writes messages, up to where the assistant's answer begins; no bos or eos is added to what it writes. A completion of
 * messages is what the template adds to the prompt for them. Blank lines are skipped. Records do not change once open,
 * so several threads may read them. */
#ifndef TESS_DATA_CONVERSATION_PROMPTS_H
#define TESS_DATA_CONVERSATION_PROMPTS_H

#include <jansson.h>

#include "data/conversation/conversation.h"

typedef struct tess_prompts_options {
    const char *const *files;
    int n_files;
    const char *prompt_key;          /* NULL: "prompt", or "messages" if a line has no prompt */
    const char *label_key;           /* NULL: the first of "label", "answer", "ground_truth" that a line has */
    bool pairs;                      /* read chosen and rejected, which each line must have */
    const tess_tokenizer *tokenizer; /* borrowed while tess_prompts_open runs */
    /* Writes messages, borrowed while tess_prompts_open runs; NULL: lines with messages are refused */
    const tess_chat *chat;
    tess_prefix bos;           /* tokens that begin each prompt that is a string */
    int32_t eos_id;            /* token that ends chosen and rejected; -1: none */
    int64_t max_prompt_tokens; /* longer prompts are dropped and counted; 0: no limit */
    /* pairs: limit for a prompt and either completion together; longer ones are dropped; 0: no limit */
    int64_t max_tokens;
} tess_prompts_options;

typedef struct tess_prompt_record {
    const char *text; /* (size) text of the prompt, NUL-terminated */
    size_t size;
    const int32_t *ids; /* (n) ids of the prompt, at least one */
    int64_t n;
    const char *label; /* (label_size) the label, NUL-terminated; NULL: none */
    size_t label_size;
    const json_t *metadata;           /* NULL: none */
    const int32_t *chosen, *rejected; /* NULL: options.pairs was false */
    int64_t n_chosen, n_rejected;
} tess_prompt_record;

typedef struct tess_prompts tess_prompts;

/* Reads all lines of all files, in order.
 *   TESS_E_INVALID: no files, no prompt in them, or all prompts were dropped
 *   TESS_E_NOT_FOUND, TESS_E_IO: the message names the file
 *   TESS_E_FORMAT: a bad line; the message names file and line */
tess_status tess_prompts_open(tess_mem *mem, const tess_prompts_options *options, tess_prompts **prompts);
void tess_prompts_close(tess_prompts **prompts);

int64_t tess_prompts_count(const tess_prompts *prompts);
int64_t tess_prompts_dropped(const tess_prompts *prompts);
/* Returns record i, 0 <= i < count. It is valid until close. */
const tess_prompt_record *tess_prompts_at(const tess_prompts *prompts, int64_t i);
/* Returns a hash of the content of all records, in their order. */
uint64_t tess_prompts_hash(const tess_prompts *prompts);

#endif
