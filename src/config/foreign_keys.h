/* Keys of other training programs, for messages: each names the key that does the same here, or says why there is
 * none. */
#ifndef TESS_CONFIG_FOREIGN_KEYS_H
#define TESS_CONFIG_FOREIGN_KEYS_H

#include "base/core/options.h"

typedef struct tess_foreign_key {
    char key[64];
    char ours[64];  /* "": it is not supported */
    char note[200]; /* the difference, or the way to do it instead; may be "" unless `ours` is */
} tess_foreign_key;

/* Reads the row at `at` (NULL: the first one). Returns the place of the next row, for the next call, or NULL if there
 * is no row. */
const char *tess_foreign_next(const char *at, tess_foreign_key *row);

enum { TESS_FOREIGN_SIZE = 128 };
/* Writes a key without leading dashes, in lower case and with '_' for '-': "--Seq-Len" is "seq_len". */
void tess_foreign_normalize(const char *key, char word[TESS_FOREIGN_SIZE]);

/* Finds a key as a user wrote it. Returns false if there is none. */
bool tess_foreign_find(const char *key, tess_foreign_key *row);
bool tess_foreign_has(const char *key);

/* Fails with TESS_E_INVALID: `key` is in none of `tables`, and the message says what to write instead. */
tess_status tess_foreign_refuse(const tess_option_table *tables, int n_tables, const char *key);

#endif
