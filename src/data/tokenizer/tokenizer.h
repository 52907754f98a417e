/* Tokenizers: byte-level BPE and HF tokenizer.json. Encodes, decodes and trains. A tokenizer does not change after
 * loading, so threads may share it, each with its own tess_encoder. */
#ifndef TESS_DATA_TOKENIZER_TOKENIZER_H
#define TESS_DATA_TOKENIZER_TOKENIZER_H

#include <jansson.h>

#include "tessera/memory.h"

typedef struct tess_tokenizer tess_tokenizer;

/* tess_tokenizer_load: reads tokenizer.json, or a folder that contains it or vocab.json and merges.txt (of GPT-2's and
 * Qwen2's classes), and the names of special tokens next to it (special_tokens.h)
 * tess_tokenizer_parse: reads the text of a tokenizer.json, without names of special tokens
 * The sections truncation and padding are ignored, as transformers does unless it is asked to cut or to pad.
 * Errors name the key. TESS_E_UNSUPPORTED: a normalizer, model or other part that is not supported; the message names
 * it. */
tess_status tess_tokenizer_load(tess_mem *mem, const char *path, tess_tokenizer **tokenizer);
tess_status tess_tokenizer_parse(tess_mem *mem, const char *json, size_t size, const char *what,
                                 tess_tokenizer **tokenizer);
/* Whether there is a tokenizer at `path`. */
bool tess_tokenizer_is_at(const char *path);
/* Appends the tokenizer.json of `path` (as for tess_tokenizer_load): the file's bytes, or what transformers makes of
 * vocab.json and merges.txt. */
struct tess_buffer;
tess_status tess_tokenizer_read(tess_mem *mem, const char *path, struct tess_buffer *json);
void tess_tokenizer_destroy(tess_tokenizer **tokenizer);

int64_t tess_tokenizer_vocab_size(const tess_tokenizer *tokenizer); /* highest id + 1, including added tokens */
/* Returns the id of the token with this text; -1: none. */
int32_t tess_tokenizer_id(const tess_tokenizer *tokenizer, const char *token);
bool tess_tokenizer_has(const tess_tokenizer *tokenizer, int64_t id);
/* Whether it is an added token that does not stand for text */
bool tess_tokenizer_is_special(const tess_tokenizer *tokenizer, int64_t id);
/* Returns the special tokens by name, as chat templates see them: an object with the texts of bos_token, eos_token and
 * others. It is empty if no file names any. */
const json_t *tess_tokenizer_named(const tess_tokenizer *tokenizer);
/* Replaces the special tokens by name; takes over `named`. */
void tess_tokenizer_set_named(tess_tokenizer *tokenizer, json_t *named);
/* Returns the bytes of (normalized) text that a token stands for, to compute bits per byte. 0 for special tokens and
 * unknown ids. */
int64_t tess_tokenizer_bytes(const tess_tokenizer *tokenizer, int32_t id);

/* Computes a hash of how text is tokenized. It is equal for equal vocabularies, merges and steps, however the file is
 * written. */
tess_status tess_tokenizer_digest(const tess_tokenizer *tokenizer, uint64_t *digest);

/* The tokens that begin a text: usually the bos, or none. */
enum { TESS_PREFIX_TOKENS = 16 };
typedef struct tess_prefix {
    int32_t id[TESS_PREFIX_TOKENS];
    int n;
} tess_prefix;
/* Returns the tokens that the post-processor's template puts before a text. */
tess_prefix tess_tokenizer_prefix(const tess_tokenizer *tokenizer);

typedef struct tess_ids {
    tess_mem *mem;
    int32_t *data;
    size_t size, capacity;
} tess_ids;
tess_status tess_ids_append(tess_ids *ids, int32_t id);
/* Makes room for n more ids. */
tess_status tess_ids_reserve(tess_ids *ids, size_t n);
void tess_ids_free(tess_ids *ids);

/* The scratch memory and word cache of one thread. */
typedef struct tess_encoder tess_encoder;
tess_status tess_encoder_create(tess_mem *mem, const tess_tokenizer *tokenizer, tess_encoder **encoder);
void tess_encoder_destroy(tess_encoder **encoder);

/* Appends the ids of `text`. Invalid UTF-8 is read as one U+FFFD per maximal subpart, as Python's errors="replace"
 * does. add_special: applies the post-processor's template (bos/eos), as HF's add_special_tokens=True does. */
tess_status tess_encode(tess_encoder *encoder, const char *text, size_t size, bool add_special, tess_ids *ids);
/* Encodes one text like tess_encode, with a temporary encoder in the memory of `ids`. */
tess_status tess_encode_text(const tess_tokenizer *tokenizer, const char *text, size_t size, bool add_special,
                             tess_ids *ids);

/* Converts ids to text. Invalid UTF-8 becomes U+FFFD, as in HF's decode. So does an id that the tokenizer does not
 * have: many models have more ids (for example a padded vocabulary), and may sample one. skip_special: leaves out
 * special added tokens. `text` is a tess_buffer (base/text/text.h). */
tess_status tess_decode(const tess_tokenizer *tokenizer, const int32_t *ids, size_t n, bool skip_special,
                        struct tess_buffer *text);

/* Like tess_decode, but appends only the part of the text that later ids cannot change. It leaves out:
 *   - a character at the end that may be incomplete;
 *   - a run of byte tokens (<0x0A>) at the end, which is decoded as a whole;
 *   - text at the end that may be the beginning of a text that the decoder replaces. */
tess_status tess_decode_settled(const tess_tokenizer *tokenizer, const int32_t *ids, size_t n, bool skip_special,
                                struct tess_buffer *text);

/* Returns the index of the id from which to decode so that the ids from number n on have the text that they have in the
 * whole: the id before number n, or the id before the run of byte tokens that ends there. */
size_t tess_decode_from(const tess_tokenizer *tokenizer, const int32_t *ids, size_t n, bool skip_special);
/* Returns the number of bytes with which both texts begin, in whole characters of `text`. The texts are UTF-8. */
size_t tess_text_common(const struct tess_buffer *before, const struct tess_buffer *text);

/* Trains byte-level BPE (GPT-2's pre-tokenizer regex, no normalizer). Each round merges the most frequent pair; of
 * equally frequent ones the smaller pair of ids, as HF tokenizers does. `specials` get the first ids. Writes a
 * tokenizer.json that HF tokenizers reads to `json` (a tess_buffer). */
tess_status tess_bpe_train(tess_mem *mem, const char *text, size_t size, int64_t vocab_size,
                           const char *const *specials, int n_specials, struct tess_buffer *json);

#endif
