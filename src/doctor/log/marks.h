/* Lines that every rank prints at the same place, and how far each rank came by them: "Entering barrier at step 120".
 * Entries of the knowledge base mark them with `reached`, the words in front of the number. */
#ifndef TESS_DOCTOR_LOG_MARKS_H
#define TESS_DOCTOR_LOG_MARKS_H

#include "doctor/log/log.h"

enum { LOG_MOST_LISTED = 4096 };

/* Words that end with "[" stand before a list with a number of each rank: "[100, 100, 99]". */
bool log_mark_is_list(const char *words);
/* The number behind `words` in a line, or those of the list. Returns how many were written to `numbers` (at most
 * LOG_MOST_LISTED), 0: there is none, -1: the words are not in the line. */
int log_parse_mark(const char *words, const char *line, size_t size, int64_t *numbers);

/* Ranks that are not where all others are. */
typedef struct log_behind {
    int entry;
    int guilty[TESS_LOG_MOST_GUILTY], n_guilty; /* the first of them */
    char text[512];
} log_behind;

/* Of n_ranks. They must be fewer than the others, or as many and have printed an earlier such line; else false: a line
 * that some ranks print only says nothing of the rest. */
bool log_find_behind(const tess_survey *survey, int n_ranks, log_behind *behind);

#endif
