/* Keys of other training programs, for messages: each names the key that does the same here, or says why there is
 * none. */
#ifndef TESS_CONFIG_FOREIGN_KEYS_H
#define TESS_CONFIG_FOREIGN_KEYS_H

#include "base/core/options.h"

typedef struct tess_foreign_key {
    const char *key;  /* the other program's key, in lower case and with '_' for '-' */
    const char *ours; /* NULL: it is not supported */
    const char *note; /* the difference, or the way to do it instead; may be NULL unless `ours` is */
} tess_foreign_key;

const tess_foreign_key *tess_foreign_keys(int *n);

enum { TESS_FOREIGN_SIZE = 128 };
/* Writes a key without leading dashes, in lower case and with '_' for '-': "--Seq-Len" is "seq_len". */
void tess_foreign_normalize(const char *key, char word[TESS_FOREIGN_SIZE]);

/* Finds a key as a user wrote it. A row with an underscore and no dot also fits as the last word of a longer key. A
 * row "section.*" fits every key of that section. NULL: there is none. */
const tess_foreign_key *tess_foreign_find(const char *key);

/* Fails with TESS_E_INVALID: `key` is in none of `tables`, and the message says what to write instead. */
tess_status tess_foreign_refuse(const tess_option_table *tables, int n_tables, const char *key);

#endif
