/* A run's memory by pool over its steps, as its trainer wrote it into memory.jsonl: while it runs, and afterwards. */
#ifndef TESS_DOCTOR_TOP_TOP_MEMORY_H
#define TESS_DOCTOR_TOP_TOP_MEMORY_H

#include <stdio.h>

#include "tessera/memory.h"

enum { TESS_TOP_HISTORY = 60, TESS_TOP_SPARK = 4 * TESS_TOP_HISTORY };

typedef struct tess_top_memory {
    int n; /* lines, the newest ones, oldest first */
    int64_t step[TESS_TOP_HISTORY];
    double bytes[TESS_POOL_COUNT][TESS_TOP_HISTORY]; /* bytes in use, all ranks */
} tess_top_memory;

/* Reads the lines of memory.jsonl, and passes over other lines. Pure function. */
void tess_top_memory_of(const char *text, size_t n, tess_top_memory *memory);

/* A cell a value, of eight heights, 0 to the largest of them; text (TESS_TOP_SPARK). Returns text. */
const char *tess_top_spark(const double *values, int n, char *text);

/* Reads the file of a run's folder. TESS_E_NOT_FOUND: there is none. */
tess_status tess_top_memory_read(const char *folder, tess_top_memory *memory);

/* A line a pool that is in use: "params   ▁▂▃▄▅▆▇█  15.2 MiB". */
void tess_top_memory_print(const tess_top_memory *memory, FILE *out);

#endif
