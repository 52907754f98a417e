/* The knowledge base of error messages: errors.yaml, which is part of the binary, and a user's files. The entries of a
 * line are found in two passes: the plain words of all patterns (literal.h) at once, by a hash of their beginnings,
 * then the patterns whose word is there (PCRE2, with bounded effort). */
#ifndef TESS_DOCTOR_LOG_KNOWLEDGE_H
#define TESS_DOCTOR_LOG_KNOWLEDGE_H

#include "doctor/table/table.h"

typedef enum tess_log_role { TESS_LOG_CAUSE, TESS_LOG_EFFECT, TESS_LOG_WARNING, TESS_LOG_SYMPTOM } tess_log_role;

typedef struct tess_log_entry {
    tess_table_row row;
    /* match, reached, myth and source may be NULL */
    const char *role_text, *match, *reached, *symptom, *cause, *check, *fix, *myth, *source;
    tess_log_role role;
} tess_log_entry;

const char *tess_log_role_name(tess_log_role role); /* "cause" */

typedef struct tess_knowledge tess_knowledge;

/* Reads errors.yaml, then ~/.config/tessera/errors.yaml, then `files`. TESS_E_FORMAT names file and line of an unknown
 * field, role, or an invalid pattern. Destroy with tess_knowledge_destroy. */
tess_status tess_knowledge_create(tess_mem *mem, const char *const *files, int n_files, tess_knowledge **out);
/* Reads only `text`, in the form of errors.yaml; `what` names it in messages. */
tess_status tess_knowledge_create_from(tess_mem *mem, const char *text, size_t size, const char *what,
                                       tess_knowledge **out);
void tess_knowledge_destroy(tess_knowledge **knowledge);

int tess_knowledge_n(const tess_knowledge *knowledge);
const tess_log_entry *tess_knowledge_at(const tess_knowledge *knowledge, int entry);

/* Words of lines that say where ranks are, whether or not an entry matches. */
typedef enum tess_log_hook {
    TESS_HOOK_WORK,
    TESS_HOOK_PROGRESS,
    TESS_HOOK_NOTIFIED,
    TESS_HOOK_NRANKS,
    TESS_HOOK_WORLD,
    TESS_HOOK_WORLD_WORDS,
    TESS_HOOK_ROOT,
    TESS_HOOK_EXITCODE,
    TESS_HOOK_LOCAL_RANK,
    TESS_HOOK_COUNT
} tess_log_hook;

enum { TESS_KNOWLEDGE_MOST_FOUND = 16 };

typedef struct tess_found {
    int n_entries, entries[TESS_KNOWLEDGE_MOST_FOUND]; /* that match, each once */
    uint32_t hooks;                                    /* bit i: the line contains the word of hook i */
} tess_found;

/* Finds the entries and hooks of a line. Not thread-safe: the work space is part of `knowledge`. */
void tess_knowledge_find(tess_knowledge *knowledge, const char *line, size_t size, tess_found *found);

#endif
