/* The parts of a tokenizer, in the order in which they process text. Private to this folder.
 *
 *   text -> added tokens that match raw text -> normalizer -> added tokens that match normalized text -> pre-tokenizer
 *        -> BPE of each piece -> post-processor */
#ifndef TESS_DATA_TOKENIZER_TOKENIZER_IMPL_H
#define TESS_DATA_TOKENIZER_TOKENIZER_IMPL_H

#include <jansson.h>

#include "base/text/text.h"
#include "data/tokenizer/oniguruma.h"
#include "data/tokenizer/strings.h"
#include "data/tokenizer/tokenizer.h"

enum {
    TESS_MAX_STEPS = 16, /* largest number of steps of a normalizer, pre-tokenizer or decoder */
    TESS_MAX_TOKEN_ID = 1 << 22,
    TESS_MAX_TEMPLATE = TESS_PREFIX_TOKENS, /* largest number of special tokens on each side */
    TESS_MAX_ADDED_SIZE = 4096              /* largest number of bytes of an added token */
};

/* A JSON value in a file, with its name for messages ("tokenizer.json: pre_tokenizer"). */
typedef struct tess_node {
    const json_t *json;
    char what[256];
} tess_node;

/* Advice in messages; its arguments are the folder, twice. */
#define TESS_MAKE_TOKENIZER_JSON                                                         \
    "transformers makes one: python3 -c \"from transformers import AutoTokenizer as A; " \
    "A.from_pretrained('%s').save_pretrained('%s')\""

/* ---- vocab.json and merges.txt ---- */
bool tess_vocab_merges_at(const char *folder);
/* Makes a tokenizer.json of the two files, as a new reference. TESS_E_UNSUPPORTED: a class other than GPT-2's and
 * Qwen2's. */
tess_status tess_vocab_merges_load(tess_mem *mem, const char *folder, json_t **json);

/* ---- Normalizer ---- */
typedef enum tess_norm_kind {
    TESS_NORM_NFC,
    TESS_NORM_NFD,
    TESS_NORM_NFKC,
    TESS_NORM_NFKD,
    TESS_NORM_PREPEND,
    TESS_NORM_REPLACE
} tess_norm_kind;

typedef struct tess_norm_step {
    tess_norm_kind kind;
    tess_buffer text;    /* PREPEND: the text to prepend; REPLACE: the replacement */
    tess_buffer pattern; /* REPLACE: the literal that is replaced ... */
    tess_regex *regex;   /* ... or a regex */
} tess_norm_step;

typedef struct tess_normalizer {
    tess_norm_step steps[TESS_MAX_STEPS];
    int n_steps;
} tess_normalizer;

/* Two buffers that the steps write in turn, and code points. */
typedef struct tess_norm_scratch {
    tess_buffer text[2];
    tess_mem *mem;
    int32_t *points;
    size_t points_capacity;
    tess_regex_scratch *regex;
} tess_norm_scratch;

tess_status tess_normalizer_read(tess_mem *mem, const tess_node *node, tess_normalizer *normalizer);
void tess_normalizer_free(tess_normalizer *normalizer);
/* Normalizes a text. *out points to `text` if nothing changes, otherwise into the scratch memory, where it is valid
 * until the next call. */
tess_status tess_normalize(const tess_normalizer *normalizer, tess_norm_scratch *scratch, const char *text, size_t size,
                           const char **out, size_t *out_size);
void tess_norm_scratch_free(tess_norm_scratch *scratch);

/* normal_form.c: appends the text in the normal form `kind`. */
tess_status tess_normal_form(tess_norm_kind kind, tess_norm_scratch *scratch, const char *text, size_t size,
                             tess_buffer *out);
/* Returns the number of bytes at the start of `text` that the form never changes, whatever follows them. */
size_t tess_normal_form_skip(tess_norm_kind kind, const char *text, size_t size);

/* ---- Added tokens ---- */
typedef struct tess_added {
    int32_t id;
    tess_buffer content, pattern; /* pattern: the text to match (the content; its normalized form if `normalized`) */
    bool single_word, lstrip, rstrip, normalized, special;
} tess_added;

/* A node of a trie of patterns, for leftmost-longest matches. */
typedef struct tess_trie_node {
    int32_t child, sibling; /* -1: none */
    int32_t added;          /* index of the token that ends here; -1: none */
    unsigned char byte;
} tess_trie_node;

typedef struct tess_trie {
    int32_t root[256]; /* index of a node + 1; 0: none */
    tess_trie_node *nodes;
    size_t n_nodes, capacity;
    bool any;
} tess_trie;

typedef struct tess_added_set {
    tess_mem *mem;
    tess_added *tokens;
    size_t n_tokens, capacity;
    tess_trie raw, normalized;
} tess_added_set;

/* Reads the tokens from the list at the top level of the file, and numbers them. `vocab`: the model's vocabulary. */
tess_status tess_added_read(tess_added_set *set, const tess_node *node, const tess_strings *vocab,
                            const tess_normalizer *normalizer);
void tess_added_free(tess_added_set *set);

/* A search through a text for the patterns of a trie. */
typedef struct tess_added_scan {
    const tess_added_set *set;
    const tess_trie *trie;
    const char *text;
    size_t size;
    size_t from;                   /* position where the search continues */
    size_t floor;                  /* end of the last match */
    size_t space_begin, space_end; /* the run of space that was seen last */
} tess_added_scan;

/* Finds the next match: *begin..*end, including the space that it consumes. NULL: there is none. */
const tess_added *tess_added_next(tess_added_scan *scan, size_t *begin, size_t *end);

/* A walk through the matches of `regex` in a text, or of the literal if there is no regex. An empty match counts,
 * unless it lies where the match before it ends. */
typedef struct tess_matches {
    const tess_regex *regex;
    const tess_buffer *literal;
    tess_regex_scratch *scratch;
    const char *text;
    size_t size;
    size_t from; /* position where the search continues */
    size_t last; /* end of the last match, if there is any */
    bool any;
} tess_matches;

/* Finds the next match: *begin..*end. *found is false after the last one. */
tess_status tess_matches_next(tess_matches *matches, bool *found, size_t *begin, size_t *end);

/* ---- Pre-tokenizer ---- */
typedef enum tess_pre_kind {
    TESS_PRE_PREFIX,    /* puts `text` before the piece, unless the piece starts with it */
    TESS_PRE_METASPACE, /* replaces ' ' by `text`, then puts `text` before the piece as `prepend` says */
    TESS_PRE_SPLIT
} tess_pre_kind;

typedef enum tess_split_behavior {
    TESS_SPLIT_ISOLATED,
    TESS_SPLIT_REMOVED,
    TESS_SPLIT_MERGED_WITH_PREVIOUS,
    TESS_SPLIT_MERGED_WITH_NEXT,
    TESS_SPLIT_CONTIGUOUS
} tess_split_behavior;

typedef enum tess_prepend { TESS_PREPEND_ALWAYS, TESS_PREPEND_FIRST, TESS_PREPEND_NEVER } tess_prepend;

typedef struct tess_pre_step {
    tess_pre_kind kind;
    tess_buffer text; /* SPLIT: the literal at which to split, if there is no regex */
    tess_regex *regex;
    tess_split_behavior behavior;
    tess_prepend prepend;
    bool invert;
} tess_pre_step;

typedef struct tess_pre_tokenizer {
    tess_pre_step steps[TESS_MAX_STEPS];
    int n_steps;
    bool byte_level; /* pieces are passed to the model as characters of GPT-2's alphabet */
} tess_pre_tokenizer;

typedef tess_status (*tess_piece_fn)(void *context, const char *piece, size_t size);

typedef struct tess_pre_run {
    const tess_pre_tokenizer *pre;
    tess_regex_scratch *regex;
    tess_buffer *text; /* (TESS_MAX_STEPS) scratch memory of each step */
    bool at_start;     /* whether the text is the beginning of the input */
    tess_piece_fn emit;
    void *context;
} tess_pre_run;

extern const char tess_gpt2_regex[];

tess_status tess_pre_tokenizer_read(tess_mem *mem, const tess_node *node, tess_pre_tokenizer *pre);
void tess_pre_tokenizer_free(tess_pre_tokenizer *pre);
tess_status tess_pre_tokenize(const tess_pre_run *run, const char *text, size_t size);

/* ---- Model ---- */
typedef struct tess_merge {
    uint64_t pair; /* left << 32 | right; ~0: free */
    uint32_t rank;
    int32_t id;
} tess_merge;

typedef struct tess_bpe {
    tess_mem *mem;
    tess_strings vocab; /* text as in the file -> id */
    tess_strings words; /* ignore_merges at byte level: raw bytes -> id */
    tess_merge *merges;
    uint64_t merge_mask;
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    int32_t unk_id;
    int32_t symbols[256]; /* byte level: symbol of each byte; otherwise of ASCII characters. -1: none */
    int32_t bytes[256];   /* byte_fallback: id of each "<0xNN>" */
} tess_bpe;

typedef struct tess_symbol {
    int32_t id, prev, next; /* neighbours by index, -1: none; id -1: the symbol was merged into another */
} tess_symbol;

typedef struct tess_candidate {
    uint32_t rank;
    int32_t at, id;
} tess_candidate;

typedef struct tess_bpe_scratch {
    tess_mem *mem;
    tess_symbol *symbols;
    size_t n_symbols, symbols_capacity;
    tess_candidate *heap;
    size_t n_heap, heap_capacity;
} tess_bpe_scratch;

tess_status tess_bpe_read(tess_bpe *bpe, const tess_node *node, bool byte_level);
void tess_bpe_free(tess_bpe *bpe);
/* Appends the ids of one piece. */
tess_status tess_bpe_encode(const tess_bpe *bpe, tess_bpe_scratch *scratch, const char *piece, size_t size,
                            tess_ids *ids);
void tess_bpe_scratch_free(tess_bpe_scratch *scratch);

/* ---- Decoder ---- */
typedef enum tess_decode_kind {
    TESS_DECODE_BYTE_LEVEL,
    TESS_DECODE_BYTE_FALLBACK,
    TESS_DECODE_FUSE,
    TESS_DECODE_REPLACE,
    TESS_DECODE_STRIP,
    TESS_DECODE_METASPACE
} tess_decode_kind;

typedef struct tess_decode_step {
    tess_decode_kind kind;
    tess_buffer from, to; /* REPLACE, METASPACE; STRIP: `from` is the character */
    int start, stop;      /* STRIP: largest number of characters removed at either end */
    bool drop_first;      /* METASPACE: removes the prefix of the first token */
} tess_decode_step;

typedef struct tess_decoder {
    tess_decode_step steps[TESS_MAX_STEPS];
    int n_steps;
    bool present; /* false: there is no decoder, and tokens are joined by spaces */
} tess_decoder;

tess_status tess_decoder_read(tess_mem *mem, const tess_node *node, tess_decoder *decoder);
void tess_decoder_free(tess_decoder *decoder);

/* ---- The tokenizer ---- */
typedef struct tess_token {
    const char *text; /* NULL: no such id; owned by the vocabulary or the added tokens */
    uint32_t size;
    uint32_t n_bytes; /* bytes of the text that the token stands for; 0 for special tokens */
    bool special;
} tess_token;

typedef struct tess_template {
    int32_t before[TESS_MAX_TEMPLATE], after[TESS_MAX_TEMPLATE];
    int n_before, n_after;
} tess_template;

struct tess_tokenizer {
    tess_mem *mem;
    tess_normalizer normalizer;
    tess_pre_tokenizer pre;
    tess_bpe bpe;
    tess_added_set added;
    tess_template special;
    tess_decoder decoder;
    tess_token *tokens; /* (n_tokens) by id */
    int64_t n_tokens;
    json_t *named; /* see tess_tokenizer_named */
};

tess_status tess_template_read(tess_mem *mem, const tess_node *node, tess_template *special);

/* ---- node.c: functions that the readers of tokenizer.json share ---- */
tess_node tess_node_member(const tess_node *node, const char *key);
/* Reads one step of type `type` into `into`. */
typedef tess_status (*tess_step_reader)(tess_mem *mem, const tess_node *node, const char *type, void *into);
/* Reads the step `node`, or the steps of a Sequence, which are in its array `list`. Reads nothing if `node` is null. */
tess_status tess_node_steps(tess_mem *mem, const tess_node *node, const char *list, tess_step_reader read, void *into);
/* *value is unchanged if the key is absent. */
tess_status tess_node_flag(const tess_node *node, const char *key, bool *value);
tess_status tess_node_text(const tess_node *node, const char *key, tess_buffer *text);
/* Reads {"String": ...} into `literal`, or {"Regex": ...} into *regex. */
tess_status tess_node_pattern(tess_mem *mem, const tess_node *node, tess_buffer *literal, tess_regex **regex);

#endif
