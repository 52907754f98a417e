/* Options of the configuration and the command line. One table of rows per section drives parsing, validation, `tessera
 * info`, --help and the docs. */
#ifndef TESS_BASE_CORE_OPTIONS_H
#define TESS_BASE_CORE_OPTIONS_H

#include "base/core/text_list.h"
#include "tessera/memory.h"

enum { TESS_TEXT_SIZE = 512, TESS_LIST_SIZE = 32, TESS_ADDRESS_SIZE = 64 };

typedef enum tess_option_type {
    TESS_OPTION_BOOL,   /* bool */
    TESS_OPTION_INT,    /* int64_t in [min, max] */
    TESS_OPTION_BYTES,  /* int64_t in [least, most]: "2GiB", "1.5 MiB", "500" */
    TESS_OPTION_FLOAT,  /* double in [min, max] */
    TESS_OPTION_TEXT,   /* char[text_size] */
    TESS_OPTION_CHOICE, /* int: index into choices */
    TESS_OPTION_LIST,   /* tess_text_list of at most TESS_LIST_SIZE items, each below TESS_TEXT_SIZE */
    TESS_OPTION_OWN     /* set by `parse`, whose messages must name the key; cannot be formatted */
} tess_option_type;

/* The effect of an option's value. Options of a run must state it. Options of commands and faults have no effect
 * (0). */
typedef enum tess_option_effect {
    TESS_EFFECT_NOTHING = 1, /* none of the effects below: ranks of one job may have different values */
    TESS_EFFECT_CALLS = 2,   /* changes which collectives ranks call, and when, but no bits and no lasting state */
    TESS_EFFECT_LAYOUT = 4,  /* changes what ranks store of weights, moments and gradients, or the steps of an update */
    TESS_EFFECT_BITS = 8,    /* changes the bits of losses, gradients or weights */
    TESS_EFFECT_LAYOUT_AND_BITS = TESS_EFFECT_LAYOUT | TESS_EFFECT_BITS
} tess_option_effect;

typedef struct tess_option {
    const char *key; /* "training.steps", "--ranks", "rank" */
    tess_option_type type;
    tess_option_effect effect;
    size_t offset;        /* offset of the field in the section's struct */
    const char *fallback; /* default, as a user would write it */
    const char *choices;  /* CHOICE: "none|full|every_n" */
    const char *also;     /* CHOICE: names of the choices in other programs, in order; case is ignored */
    double min, max;      /* FLOAT */
    int64_t least, most;  /* INT, BYTES */
    const char *zero;     /* INT: the word that stands for 0, which may lie outside the range; NULL: none */
    int64_t unit;         /* BYTES: bytes that a plain number counts; 0: one */
    size_t text_size;     /* TEXT: bytes of the field; 0: TESS_TEXT_SIZE */
    const char *axis;     /* INT: its value is the degree of this axis of the mesh */
    bool is_path;         /* TEXT, LIST: a leading ~ or ~/ stands for the home folder */
    bool is_url;          /* TEXT: user names, passwords and queries in URLs are hidden when the value is formatted */
    tess_status (*parse)(void *config, const char *text); /* OWN */
    const char *help;                                     /* one line; states the unit where it could be in doubt */
} tess_option;

/* The options of a section are one list of OPTION(TYPE, SECTION, FIELD, EFFECT, ...), where TYPE and what follows it
 * are a row's macro of base/core/option_rows.h. This is the field that an option has in the section's struct. */
#define TESS_OPTION_FIELD(type_, section_, field_, ...) TESS_FIELD_##type_(field_)
#define TESS_FIELD_BOOL(field_) bool field_;
#define TESS_FIELD_INT(field_) int64_t field_;
#define TESS_FIELD_INT_OR(field_) int64_t field_;
#define TESS_FIELD_DEGREE(field_) int64_t field_;
#define TESS_FIELD_BYTES(field_) int64_t field_;
#define TESS_FIELD_FLOAT(field_) double field_;
#define TESS_FIELD_CHOICE(field_) int field_;
#define TESS_FIELD_CHOICE_ALSO(field_) int field_;
#define TESS_FIELD_TEXT(field_) char field_[TESS_TEXT_SIZE];
#define TESS_FIELD_PATH(field_) char field_[TESS_TEXT_SIZE];
#define TESS_FIELD_ADDRESS(field_) char field_[TESS_ADDRESS_SIZE];
#define TESS_FIELD_URL(field_) char field_[TESS_TEXT_SIZE];
#define TESS_FIELD_LIST(field_) tess_text_list field_;
#define TESS_FIELD_PATHS(field_) tess_text_list field_;

/* The options of one struct. No two rows have the same field. */
typedef struct tess_option_section {
    const char *name; /* "training" */
    const char *help;
    const tess_option *rows;
    int n_rows;
} tess_option_section;

/* A section of a configuration. The configuration is a struct that contains the structs of its sections. */
typedef struct tess_option_table {
    const tess_option_section *section;
    size_t offset;
} tess_option_table;

/* Returns the section's struct in `config`. */
static inline const void *tess_options_section(const tess_option_table *table, const void *config)
{
    return (const char *)config + table->offset;
}

/* Whether a row has the key. */
bool tess_options_has(const tess_option_table *tables, int n_tables, const char *key);

/* Writes the default of every row that has one into `config`. Each list in `config` must be zero, or own its items:
 * it is freed first. */
tess_status tess_options_defaults(const tess_option_table *tables, int n_tables, void *config);

/* Frees the lists of a configuration. They are empty afterwards. */
void tess_options_free(const tess_option_table *tables, int n_tables, void *config);

/* Copies the configuration `from`, which has `size` bytes, and its lists. Overwrites all of *to without freeing it.
 * Free *to with tess_options_free. TESS_E_NOMEM: *to is zero. */
tess_status tess_options_copy(const tess_option_table *tables, int n_tables, void *to, const void *from, size_t size);

/* Returns a hash of the values of all rows with one of the effects. It also depends on which rows these are. */
uint64_t tess_options_hash(const tess_option_table *tables, int n_tables, const void *config, unsigned effects);

/* Sets one key from text. `source` names the place in messages ("kjv.yaml:12", "command line"). For an unknown key
 * the message names the nearest one; for a bad value, the choices or the range. A LIST is written as in
 * base/text/list_text.h, with or without brackets. */
tess_status tess_options_set(const tess_option_table *tables, int n_tables, void *config, const char *key,
                             const char *text, const char *source);

/* Fails with TESS_E_INVALID because there is no `key`. The message suggests the key that the user may mean. `shown` is
 * the key as the user wrote it. */
tess_status tess_options_refuse(const tess_option_table *tables, int n_tables, const char *key, const char *shown);

/* Finds a key with the same last word as `key`. Prefers one whose section is a word of `key`; otherwise takes the first
 * if at most three match. NULL: no such key, or too many. */
const char *tess_options_same_leaf(const tess_option_table *tables, int n_tables, const char *key);

/* Writes the current value as a user would write it. `section` is the struct that the row belongs to. */
tess_status tess_options_format(const tess_option *option, const void *section, char *text, size_t size);
/* Like tess_options_format, for a key. */
tess_status tess_options_format_key(const tess_option_table *tables, int n_tables, const void *config, const char *key,
                                    char *text, size_t size);
/* Whether the current value is the default, however that is written. False for a value that cannot be formatted and
 * for a row without a default. */
bool tess_options_is_default(const tess_option *option, const void *section);

/* Parses an integer in [min, max]: "12", "10_000", "1e6". */
tess_status tess_options_int(const char *text, int64_t min, int64_t max, int64_t *value);
/* Parses a size in [min, max] bytes: "20MiB", "1.5 GiB". A plain number counts `unit` bytes. */
tess_status tess_options_bytes(const char *text, int64_t unit, int64_t min, int64_t max, int64_t *value);

/* Sets *chosen to the index of `text` in `names`. TESS_E_INVALID: the message calls the text an unknown `what`, and
 * names the nearest name or all of them. */
tess_status tess_options_choose(const char *what, const char *text, const char *const *names, int n, int *chosen);

enum { TESS_HINT_BYTES = 256 };
/* Returns ": did you mean 'BEFORE NAME'?" with the name nearest to `text`, written to `hint`. If no name is near,
 * returns `otherwise`. */
const char *tess_options_hint(const char *before, const char *text, const char *const *names, int n,
                              const char *otherwise, char hint[TESS_HINT_BYTES]);

/* Returns the shortest name that begins with `text`, or else the name nearest to it by edit distance; NULL: none is
 * near. */
const char *tess_options_nearest(const char *text, const char *const *names, int n);

#endif
