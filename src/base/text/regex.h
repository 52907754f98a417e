/* Regular expressions on PCRE2.
 *
 * Patterns and texts may come from users: a scratch limits what one search may cost, and \C and deeply nested
 * parentheses are refused. A line end is "\n". */
#ifndef TESS_BASE_TEXT_REGEX_H
#define TESS_BASE_TEXT_REGEX_H

#include "tessera/memory.h"

typedef enum tess_regex_flag {
    TESS_REGEX_CASELESS = 1 << 0,
    TESS_REGEX_MULTILINE = 1 << 1,   /* ^ and $ match at every line */
    TESS_REGEX_DOTALL = 1 << 2,      /* . matches line ends, too */
    TESS_REGEX_NAMED_ONLY = 1 << 3,  /* parentheses without a name do not capture */
    TESS_REGEX_UTF8 = 1 << 4,        /* texts are valid UTF-8, and classes follow Unicode */
    TESS_REGEX_BROKEN_UTF8 = 1 << 5, /* texts are UTF-8, whose invalid bytes match nothing */
    TESS_REGEX_WHOLE = 1 << 6        /* a match covers the whole text */
} tess_regex_flag;

typedef struct tess_regex tess_regex; /* immutable: threads may share it */

/* Compiles a pattern. `flags` are combined from tess_regex_flag. `what` names the pattern in messages.
 * TESS_E_FORMAT: the pattern is invalid; the message names it and the byte at which the error is found. */
tess_status tess_regex_create(tess_mem *mem, const char *pattern, size_t size, unsigned flags, const char *what,
                              tess_regex **regex);
void tess_regex_destroy(tess_regex **regex); /* NULL is fine */

/* Compiles the pattern to machine code, which takes longer than a few searches. Where that is impossible (another
 * machine, no executable memory), the interpreter searches, more slowly. The results are the same. The limit of
 * steps is reached at the same point on every machine only with the interpreter, not with machine code. No other
 * thread may use the pattern meanwhile. */
void tess_regex_speed_up(tess_regex *regex);

int tess_regex_n_groups(const tess_regex *regex);
/* Returns the i-th name of a group, in alphabetical order, and sets the group's number. NULL: there are no more
 * names. */
const char *tess_regex_name(const tess_regex *regex, int i, int *group);

/* The memory for the searches of one thread, and the limits of one search. */
typedef struct tess_regex_scratch tess_regex_scratch;

typedef struct tess_regex_limits {
    int groups;        /* number of groups whose places are kept; named groups beyond it are not found */
    uint32_t steps;    /* limit of the steps of a search */
    uint32_t depth;    /* limit of the depth of backtracking; 0: only `heap_kib` limits it */
    uint32_t heap_kib; /* limit of the memory for backtracking */
    size_t jit_stack; /* bytes of stack for machine code; 0: 32 KiB. The interpreter takes over when it is too small. */
} tess_regex_limits;

tess_status tess_regex_scratch_create(tess_mem *mem, const tess_regex_limits *limits, tess_regex_scratch **scratch);
void tess_regex_scratch_destroy(tess_regex_scratch **scratch); /* NULL is fine */

/* Finds the first match in text[from..size). *found is false when there is none; then *begin and *end are unchanged.
 * TESS_E_INVALID: the search reaches the limits. */
tess_status tess_regex_find(const tess_regex *regex, tess_regex_scratch *scratch, const char *text, size_t size,
                            size_t from, bool *found, size_t *begin, size_t *end);
/* Whether the pattern matches anywhere in the text. A search that reaches the limits finds nothing. */
bool tess_regex_matches(const tess_regex *regex, tess_regex_scratch *scratch, const char *text, size_t size);
/* Does the same in text[from..to) of a longer text of `size` bytes: no line begins or ends at an edge inside it. */
bool tess_regex_matches_part(const tess_regex *regex, tess_regex_scratch *scratch, const char *text, size_t size,
                             size_t from, size_t to);
/* Sets the bounds of a group in the newest match. Returns false if the group is not part of the match. */
bool tess_regex_group(const tess_regex_scratch *scratch, int group, size_t *begin, size_t *end);

#endif
