/* Many words searched at once, in time that depends on the text alone (Aho and Corasick, CACM 18(6), 1975). ASCII
 * letters of either case are the same. */
#ifndef TESS_DOCTOR_LOG_AUTOMATON_H
#define TESS_DOCTOR_LOG_AUTOMATON_H

#include "tessera/memory.h"

typedef struct tess_automaton tess_automaton;

/* words[i] has sizes[i] > 0 bytes, in lower case; copied. Destroy with tess_automaton_destroy. */
tess_status tess_automaton_create(tess_mem *mem, const char *const *words, const size_t *sizes, int n_words,
                                  tess_automaton **out);
void tess_automaton_destroy(tess_automaton **automaton);

/* Calls found(context, i) for every word i at each of its places in the text. */
void tess_automaton_scan(const tess_automaton *automaton, const char *text, size_t size,
                         void (*found)(void *context, int word), void *context);

#endif
