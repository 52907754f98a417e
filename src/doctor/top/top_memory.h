/* Reads and draws a run's memory by pool over its steps. Its trainer writes memory.jsonl while it runs; the file can
 * also be read afterwards. */
#ifndef TESS_DOCTOR_TOP_TOP_MEMORY_H
#define TESS_DOCTOR_TOP_TOP_MEMORY_H

#include <stdio.h>

#include "tessera/memory.h"

enum { TESS_TOP_HISTORY = 60, TESS_TOP_SPARK = 4 * TESS_TOP_HISTORY };

typedef struct tess_top_memory {
    int n; /* number of lines; the newest lines are kept, oldest first */
    int64_t step[TESS_TOP_HISTORY];
    double bytes[TESS_POOL_COUNT][TESS_TOP_HISTORY]; /* bytes in use by all ranks */
} tess_top_memory;

/* Reads the lines of memory.jsonl; ignores lines of any other form. Pure function. */
void tess_top_memory_of(const char *text, size_t n, tess_top_memory *memory);

/* Draws one cell per value, in eight heights from 0 to the largest value. text (TESS_TOP_SPARK). Returns text. */
const char *tess_top_spark(const double *values, int n, char *text);

/* Reads memory.jsonl in a run's folder. TESS_E_NOT_FOUND: the file does not exist. */
tess_status tess_top_memory_read(const char *folder, tess_top_memory *memory);

/* Prints one line per pool that is in use: "params   ▁▂▃▄▅▆▇█  15.2 MiB". */
void tess_top_memory_print(const tess_top_memory *memory, FILE *out);

#endif
