#include "job/call_sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/objects.h"
#include "base/os/symbols.h"
#include "base/text/text.h"
#include "trace/call_site.h"

enum { MOST_BYTES = 4096 };

static const char mark[] = "called at ";

/* A place in a file that a rank had loaded. */
typedef struct site_place {
    const char *path;
    uint32_t object; /* id; 0: the program */
    uint64_t offset;
} site_place;

/* The last file that was opened. It stays open, because messages name a place more than once. */
typedef struct file {
    const char *path;
    tess_symbols symbols;
} file;

/* Whether `text` names this object: by its file, or by its id if the writer of the message has not loaded it
 * (call_site.h). */
static bool stands_for(const char *text, size_t n, uint32_t id, const char *name)
{
    char site[TESS_OBJECT_PATH_BYTES];
    tess_call_site_format(tess_call_site_in_object(id, 0), name, site, sizeof(site));
    return strncmp(site, text, n) == 0 && strcmp(site + n, "+0x0") == 0;
}

static bool find_object(const tess_trace_ring *ring, const char *name, size_t n, site_place *found)
{
    const char *path;
    for (size_t at = 0; (path = tess_trace_objects_next(&ring->objects, &at, &found->object)) != NULL;) {
        found->path = path;
        if (stands_for(name, n, found->object, tess_object_file_name(path)) || stands_for(name, n, found->object, ""))
            return true;
    }
    return false;
}

/* The program of `rank`; "": not known. The ring of a rank of another host is not in this memory, but ranks here run
 * the same file: their hashes of it are equal. */
static const char *program_of(const tess_job *job, int rank)
{
    const char *path = tess_job_ring(job, rank)->owner.program;
    uint64_t hash = job->rows[rank].program_hash;
    for (int r = 0; r < (int)job->header->world && path[0] == '\0' && hash != 0; r++)
        if (job->rows[r].program_hash == hash)
            path = tess_job_ring(job, r)->owner.program;
    return path;
}

/* Parses the call site in `text`. Returns the end of it, or NULL if it names no known file. */
static const char *find_place(const tess_job *job, int rank, const char *text, site_place *found)
{
    static const char program[] = "program";
    const char *plus = strstr(text, "+0x");
    size_t n = plus != NULL ? (size_t)(plus - text) : 0;
    char *end;
    if (n == 0 || n > strcspn(text, ")"))
        return NULL;
    bool is_program = n == strlen(program) && strncmp(text, program, n) == 0;
    if (is_program)
        *found = (site_place){.path = program_of(job, rank)};
    bool is_found = is_program || find_object(tess_job_ring(job, rank), text, n, found);
    /* The message may quote a call site of another rank. */
    for (int r = 0; r < (int)job->header->world && !is_found; r++)
        is_found = find_object(tess_job_ring(job, r), text, n, found);
    if (!is_found)
        return NULL;
    found->offset = strtoull(plus + 1, &end, 16);
    return end;
}

static const char *find_function(file *open, const site_place *at, char *text, size_t size)
{
    text[0] = '\0';
    if (open->path != at->path) {
        tess_symbols_close(&open->symbols);
        open->path = at->path;
        if (tess_symbols_open(at->path, &open->symbols) != TESS_OK)
            tess_error_clear();
    }
    bool rebuilt = at->object != 0 && open->symbols.id != 0 && open->symbols.id != at->object;
    if (!rebuilt) /* otherwise its calls have moved since the rank loaded it */
        tess_symbols_report(&open->symbols, at->object == 0 ? "" : at->path, at->offset, text, size);
    return text;
}

static size_t report(file *open, const site_place *at, char *text, size_t size, size_t end)
{
    char function[160];
    unsigned long long offset = at->offset;
    if (find_function(open, at, function, sizeof(function))[0] != '\0')
        return tess_text_add(text, size, end, "called by %s", function);
    const char *name = at->object == 0 ? "program" : tess_object_file_name(at->path);
    return tess_text_add(text, size, end, "%s%s+0x%llx", mark, name, offset);
}

void tess_call_sites_name(const tess_job *job, int rank, char *text, size_t size)
{
    char named[MOST_BYTES];
    const char *from = text, *at;
    size_t n = 0;
    file open = {0};
    while ((at = strstr(from, mark)) != NULL) {
        site_place found;
        const char *end = find_place(job, rank, at + strlen(mark), &found);
        n = tess_text_add(named, sizeof(named), n, "%.*s", (int)(at - from), from);
        if (end != NULL)
            n = report(&open, &found, named, sizeof(named), n);
        else
            n = tess_text_add(named, sizeof(named), n, "%s", mark);
        from = end != NULL ? end : at + strlen(mark);
    }
    n = tess_text_add(named, sizeof(named), n, "%s", from);
    if (n + 1 < sizeof(named) && n < size)
        memcpy(text, named, n + 1);
    tess_symbols_close(&open.symbols);
}
