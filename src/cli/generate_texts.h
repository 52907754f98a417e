/* Stores the prompts of `tessera generate` and the generated texts, and prints them. Each prompt gets `n_each`
 * texts. They are numbered prompt by prompt, and printed in that order as soon as they are complete. */
#ifndef TESS_CLI_GENERATE_TEXTS_H
#define TESS_CLI_GENERATE_TEXTS_H

#include "base/text/text.h"
#include "data/tokenizer/tokenizer.h"
#include "infer/generate.h"

typedef struct generate_text {
    tess_ids ids;         /* ids of the prompt and of the generated part */
    tess_buffer logprobs; /* log-probabilities of the generated part, as floats */
    bool done;
    tess_finish finish;
} generate_text;

typedef enum generate_format {
    GENERATE_TEXT,  /* the text with its prompt; a single text is printed as it grows */
    GENERATE_TOKEN, /* one JSON line for each token, as it is generated */
    GENERATE_JSONL  /* one JSON line for each text */
} generate_format;

/* The caller zero-initialises it, then sets the members before the blank line. */
typedef struct generate_texts {
    tess_mem *mem;
    const tess_tokenizer *tokenizer;
    generate_format format;
    int64_t n_each;           /* number of texts for each prompt */
    const char *const *stops; /* NULL-terminated list of strings that end a text; they are not part of it */

    tess_ids *prompts; /* (n_prompts) */
    int64_t n_prompts, room;
    generate_text *texts; /* (n_prompts * n_each) */
    int64_t n_printed;
    size_t shown; /* number of bytes of a single text already printed */
} generate_texts;

void generate_texts_free(generate_texts *t);

/* Appends a prompt: the tokens `begin`, then those of `text`. Returns TESS_E_INVALID if there are none. */
tess_status generate_texts_add(generate_texts *t, tess_encoder *encoder, const tess_prefix *begin, bool add_special,
                               const char *text, size_t size);
/* Reads one prompt from each line, and skips blank lines. If the file's name has a JSON ending, reads the "prompt"
 * of each record instead. */
tess_status generate_texts_load(generate_texts *t, tess_encoder *encoder, const tess_prefix *begin, bool add_special,
                                const char *path);
/* Called when all prompts have been added; allocates the texts. */
tess_status generate_texts_begin(generate_texts *t);

/* Callbacks for the generator. They belong to text number r->id. */
tess_status generate_texts_token(generate_texts *t, const tess_request *r, int64_t position, int32_t token,
                                 float logprob, bool generated, bool *stop);
tess_status generate_texts_finished(generate_texts *t, const tess_request *r, tess_finish why);

#endif
