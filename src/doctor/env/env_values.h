/* The values that a variable accepts, in the form of the files of variables/. " or " separates alternatives:
 *
 *     bool               0 1 true false yes no on off y n t f
 *     on                 those of them that mean yes
 *     off                those of them that mean no
 *     int 0..31          an integer; either end may be missing
 *     ints 1..           integers separated by commas
 *     number 0..         a number
 *     one A|B            one of these words, in upper or lower case
 *     gpus               indices, "GPU-..." or "MIG-...", separated by commas
 *     list A|B           words separated by commas; "^" before a word excludes it; "allreduce:" before the words names
 *                        an NCCL function; ";" separates functions
 *     has A|B            a list with one of these words
 *     lacks A|B          a list without any of them; a list that begins with "^" excludes its words, and is neither */
#ifndef TESS_DOCTOR_ENV_ENV_VALUES_H
#define TESS_DOCTOR_ENV_ENV_VALUES_H

#include "tessera/status.h"
#include "tessera/types.h"

/* Whether `values` follows the format above. */
bool tess_env_are_values(const char *values);
bool tess_env_accepts(const char *values, const char *value);
/* Describes the accepted values in words: "one of A, B; or an integer from 0 to 4". Returns text. */
const char *tess_env_describe_values(const char *values, char *text, size_t size);
/* Whether two values mean the same: "0" and "false", "Ring" and "ring", "4194304" and "4194304 (4 MiB)". */
bool tess_env_is_default(const char *fallback, const char *value);

#endif
