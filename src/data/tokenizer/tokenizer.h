/* Byte-level BPE and HF tokenizer.json: encode, decode, train. Immutable after loading: safe to share between threads,
 * each with its own tess_encoder. */
#ifndef TESS_DATA_TOKENIZER_TOKENIZER_H
#define TESS_DATA_TOKENIZER_TOKENIZER_H

#include <jansson.h>

#include "tessera/memory.h"

typedef struct tess_tokenizer tess_tokenizer;

/* Reads tokenizer.json, or a folder that holds one or vocab.json and merges.txt (of GPT-2's and Qwen2's classes), and
 * the names of special tokens next to it (special_tokens.h). tess_tokenizer_parse knows no names.
 * Errors name the key; unsupported normalizers, models, ... are TESS_E_UNSUPPORTED with their name. */
tess_status tess_tokenizer_load(tess_mem *mem, const char *path, tess_tokenizer **tokenizer);
tess_status tess_tokenizer_parse(tess_mem *mem, const char *json, size_t size, const char *what,
                                 tess_tokenizer **tokenizer);
/* Whether there is one to read at `path`. */
bool tess_tokenizer_is_at(const char *path);
/* Appends the tokenizer.json of `path`, as load takes it: the file's bytes, or what transformers makes of vocab.json
 * and merges.txt. */
struct tess_buffer;
tess_status tess_tokenizer_read(tess_mem *mem, const char *path, struct tess_buffer *json);
void tess_tokenizer_destroy(tess_tokenizer **tokenizer);

int64_t tess_tokenizer_vocab_size(const tess_tokenizer *tokenizer); /* highest id + 1, added tokens included */
/* Id of a token by its text, -1: none. */
int32_t tess_tokenizer_id(const tess_tokenizer *tokenizer, const char *token);
bool tess_tokenizer_has(const tess_tokenizer *tokenizer, int64_t id);
bool tess_tokenizer_is_special(const tess_tokenizer *tokenizer, int64_t id); /* an added token that is no text */
/* The special tokens by name, as chat templates see them: an object with the texts of bos_token, eos_token and others.
 * It is empty if no file names one. */
const json_t *tess_tokenizer_named(const tess_tokenizer *tokenizer);
/* Replaces them; takes over `named`. */
void tess_tokenizer_set_named(tess_tokenizer *tokenizer, json_t *named);
/* Bytes of (normalized) text that a token stands for: for bits per byte. 0 for special tokens and unknown ids. */
int64_t tess_tokenizer_bytes(const tess_tokenizer *tokenizer, int32_t id);

/* A hash of what it makes of text, equal for equal vocabularies, merges and steps however the file is written. */
tess_status tess_tokenizer_digest(const tess_tokenizer *tokenizer, uint64_t *digest);

/* The tokens that begin a text: bos, as a rule, or none. */
enum { TESS_PREFIX_TOKENS = 16 };
typedef struct tess_prefix {
    int32_t id[TESS_PREFIX_TOKENS];
    int n;
} tess_prefix;
/* The tokens that the post-processor's template puts before a text. */
tess_prefix tess_tokenizer_prefix(const tess_tokenizer *tokenizer);

typedef struct tess_ids {
    tess_mem *mem;
    int32_t *data;
    size_t size, capacity;
} tess_ids;
tess_status tess_ids_append(tess_ids *ids, int32_t id);
/* Makes room for n more. */
tess_status tess_ids_reserve(tess_ids *ids, size_t n);
void tess_ids_free(tess_ids *ids);

/* Scratch and word cache of one thread. */
typedef struct tess_encoder tess_encoder;
tess_status tess_encoder_create(tess_mem *mem, const tess_tokenizer *tokenizer, tess_encoder **encoder);
void tess_encoder_destroy(tess_encoder **encoder);

/* Appends the ids of `text`. Invalid UTF-8 is read as U+FFFD per maximal subpart (as Python's errors="replace").
 * add_special: apply the post-processor's template (bos/eos) as HF's add_special_tokens=True. */
tess_status tess_encode(tess_encoder *encoder, const char *text, size_t size, bool add_special, tess_ids *ids);
/* Likewise, for one text: with an encoder made for it, whose memory is that of `ids`. */
tess_status tess_encode_text(const tess_tokenizer *tokenizer, const char *text, size_t size, bool add_special,
                             tess_ids *ids);

/* Text of ids; invalid UTF-8 comes out as U+FFFD, as HF's decode, and so does an id that the tokenizer does not have:
 * models often have more (their vocabulary is padded, say), and may draw one. skip_special drops special added tokens.
 * `text` is a tess_buffer (base/text/text.h). */
tess_status tess_decode(const tess_tokenizer *tokenizer, const int32_t *ids, size_t n, bool skip_special,
                        struct tess_buffer *text);

/* Trains byte-level BPE (GPT-2 pre-tokenizer regex, no normalizer): the most frequent pair, ties by the smaller pair of
 * ids as HF tokenizers does. Specials get the first ids. *json: a tokenizer.json that HF tokenizers reads, in `json` (a
 * tess_buffer). */
tess_status tess_bpe_train(tess_mem *mem, const char *text, size_t size, int64_t vocab_size,
                           const char *const *specials, int n_specials, struct tess_buffer *json);

#endif
