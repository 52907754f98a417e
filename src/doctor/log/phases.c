/* Finds what a program was doing from the frames of its stack. A table (errors/phases.yaml) lists files and functions
 * of common libraries, and the names that programs use for the same tasks. */
#include <stdio.h>
#include <string.h>

#include "base/mem/scoped.h"
#include "doctor/data.h"
#include "doctor/log/log_impl.h"

/* How strongly the words of a row show the phase. NATIVE: the row is for lines of native programs. */
enum { WEAK, USUAL, STRONG, NATIVE };

/* A row of the file. */
struct log_phase {
    char path[64], function[40], phase[72];
    int strength;
};

/* Reads a line of the file. Returns false if it holds no row. */
static bool read_row(const char *line, log_phase *row)
{
    char strength[8] = "";
    if (sscanf(line, "- [%63[^],], %39[^],], %71[^],], %7[a-z]", row->path, row->function, row->phase, strength) < 3)
        return false;
    if (row->path[0] == '"')
        row->path[0] = '\0';
    if (row->function[0] == '"')
        row->function[0] = '\0';
    row->strength = strength[0] == 'w' ? WEAK : strength[0] == 's' ? STRONG : strength[0] == 'n' ? NATIVE : USUAL;
    return true;
}

tess_status log_phases_read(tess_mem *mem, log_phase **phases, int *n)
{
    const char *text = (const char *)tess_data_phases, *at;
    int n_lines = 0;
    for (at = text; (at = strchr(at, '\n')) != NULL; at++)
        n_lines++;
    TESS_TRY(TESS_NEW(mem, n_lines, "phases of programs", phases));
    *n = 0;
    for (at = text; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        *n += read_row(at, &(*phases)[*n]);
    }
    return TESS_OK;
}

/* Returns the end of a path: the folder and the file name. */
static const char *last_parts(const char *path)
{
    const char *at = path + strlen(path);
    for (int slashes = 0; at > path; at--)
        if (at[-1] == '/' && ++slashes == 2)
            break;
    return at;
}

/* Whether the frame is the import of a module: a module's code runs then, except for the program itself. */
static bool is_import(const log_frame *frames, int i)
{
    return i > 0 && frames[i].path[0] != '<' && strstr(frames[i - 1].path, "runpy") == NULL &&
           strstr(frames[i - 1].path, "<string>") == NULL;
}

static const log_phase *row_of(const tess_survey *s, const log_frame *frames, int i)
{
    const log_frame *frame = &frames[i];
    const char *last = last_parts(frame->path);
    for (const log_phase *row = s->phases; row < s->phases + s->n_phases; row++) {
        bool is_there = row->strength != NATIVE &&
                        strncmp(frame->function, row->function, strlen(row->function)) == 0 &&
                        strstr(strchr(row->path, '/') != NULL ? frame->path : last, row->path) != NULL;
        if (is_there && (strcmp(row->function, "<module>") != 0 || is_import(frames, i)))
            return row;
    }
    return NULL;
}

const char *log_phase_of(const tess_survey *s, const log_frame *frames, int n)
{
    const log_phase *best = NULL;
    for (int i = n - 1; i >= 0; i--) {
        const log_phase *row = row_of(s, frames, i);
        if (row != NULL && (best == NULL || row->strength > best->strength))
            best = row;
    }
    return best != NULL ? best->phase : NULL;
}

const char *log_component_of(const tess_survey *s, const char *line, size_t size)
{
    for (const log_phase *row = s->phases; row < s->phases + s->n_phases; row++)
        if (row->strength == NATIVE && memmem(line, size, row->path, strlen(row->path)) != NULL)
            return row->phase;
    return NULL;
}
