/* The prompts of `tessera generate`, the texts that become of them, and how they are printed. Texts are numbered prompt
 * by prompt, `n_each` of each, and printed in that order as they are done. */
#ifndef TESS_CLI_GENERATE_TEXTS_H
#define TESS_CLI_GENERATE_TEXTS_H

#include "base/text/text.h"
#include "data/tokenizer/tokenizer.h"
#include "infer/generate.h"

typedef struct generate_text {
    tess_ids ids;         /* the prompt and what is new */
    tess_buffer logprobs; /* floats, of what is new */
    bool done;
    tess_finish finish;
} generate_text;

typedef enum generate_format {
    GENERATE_TEXT,  /* the text with its prompt; a single one is printed while it grows */
    GENERATE_TOKEN, /* a JSON line each, as they come */
    GENERATE_JSONL  /* a JSON line for each text */
} generate_format;

/* Zero-initialise, then set the first part. */
typedef struct generate_texts {
    tess_mem *mem;
    const tess_tokenizer *tokenizer;
    generate_format format;
    int64_t n_each;           /* texts of a prompt */
    const char *const *stops; /* NULL-terminated: strings that end a text, and are not part of it */

    tess_ids *prompts; /* (n_prompts) */
    int64_t n_prompts, room;
    generate_text *texts; /* (n_prompts * n_each) */
    int64_t n_printed;
    size_t shown; /* bytes printed so far of a single text */
} generate_texts;

void generate_texts_free(generate_texts *t);

/* Appends a prompt: `begin`, then the tokens of `text`. TESS_E_INVALID: it has none. */
tess_status generate_texts_add(generate_texts *t, tess_encoder *encoder, const tess_prefix *begin, bool add_special,
                               const char *text, size_t size);
/* Reads one prompt a line, and skips blank lines. If the file's name is one of JSON, it reads the "prompt" of each
 * record instead. */
tess_status generate_texts_load(generate_texts *t, tess_encoder *encoder, const tess_prefix *begin, bool add_special,
                                const char *path);
/* All prompts are there. */
tess_status generate_texts_begin(generate_texts *t);

/* The callback of a source of requests, for text number r->id. */
tess_status generate_texts_token(generate_texts *t, const tess_request *r, int64_t position, int32_t token,
                                 float logprob, bool generated, bool *stop);
tess_status generate_texts_finished(generate_texts *t, const tess_request *r, tess_finish why);

#endif
