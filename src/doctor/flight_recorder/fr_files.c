/* Finds the dumps in a folder, and reads the rank of each from its file name. */
#include "doctor/flight_recorder/flight_recorder_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "doctor/flight_recorder/flight_recorder.h"

static bool all_digits(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Returns the length of the name without its extension; 0: dumps do not have this extension. */
static size_t stem(const char *name)
{
    const char *dot = strrchr(name, '.');
    if (dot == NULL || all_digits(dot + 1))
        return strlen(name);
    return tess_text_has(dot, strlen(dot), TESS_WORD_IS, ".json|.pkl|.pickle|.bin|.dump|.trace") ? (size_t)(dot - name)
                                                                                                 : 0;
}

/* Finds the digits after the last "rank", or else the digits at the end of the name. */
static const char *find_digits(const char *name, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        size_t at = i + 4 + (i + 4 < n && strchr("_-.", name[i + 4]) != NULL);
        if (i + 4 < n && strncmp(name + i, "rank", 4) == 0 && at < n && isdigit((unsigned char)name[at]))
            return name + at;
    }
    size_t at = n;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    return at < n ? name + at : NULL;
}

/* Reads the rank in a file name: "nccl_trace_rank_3", "rank-3.json", "trace_3.pkl"; -1: not the name of a dump. */
static int rank_of(const char *name)
{
    size_t n = stem(name);
    const char *digits = name[0] != '.' ? find_digits(name, n) : NULL;
    if (digits == NULL)
        return -1;
    long rank = strtol(digits, NULL, 10);
    return rank < TESS_HISTORY_MAX_RANKS ? (int)rank : -1;
}

static tess_status visit(void *context, const char *name)
{
    fr_files *files = context;
    char path[4096];
    int rank = rank_of(name);
    if (rank < 0 || strlen(name) >= sizeof(files->file->name) ||
        tess_os_join(path, sizeof(path), files->folder, name) != TESS_OK || !tess_os_is_file(path))
        return TESS_OK;
    if (strstr(name, "rank") == NULL && !dump_is(path))
        return TESS_OK;
    if ((files->n & (files->n - 1)) == 0)
        TESS_TRY(tess_mem_grow(files->mem, TESS_POOL_MISC, (files->n == 0 ? 1 : 2 * files->n) * sizeof(fr_file),
                               "flight recorder", (void **)&files->file));
    fr_file *file = &files->file[files->n++];
    *file = (fr_file){.rank = rank};
    snprintf(file->name, sizeof(file->name), "%s", name);
    size_t length = strlen(name);
    file->is_json = length > 5 && strcmp(name + length - 5, ".json") == 0;
    return TESS_OK;
}

static int compare(const void *a, const void *b)
{
    const fr_file *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->is_json != y->is_json)
        return x->is_json ? 1 : -1;
    return strcmp(x->name, y->name);
}

tess_status fr_files_list(tess_mem *mem, const char *folder, fr_files *files)
{
    *files = (fr_files){.mem = mem, .folder = folder};
    tess_status status = tess_os_list(folder, visit, files);
    if (status != TESS_OK) {
        fr_files_free(files);
        return status;
    }
    if (files->n > 0)
        qsort(files->file, files->n, sizeof(*files->file), compare);
    size_t n_ranks = 0;
    for (size_t i = 0; i < files->n; i++)
        if (n_ranks == 0 || files->file[n_ranks - 1].rank != files->file[i].rank)
            files->file[n_ranks++] = files->file[i];
    files->n = n_ranks;
    return TESS_OK;
}

void fr_files_free(fr_files *files)
{
    tess_mem_free(files->mem, files->file);
    files->file = NULL;
    files->n = 0;
}

bool tess_flight_recorder_is(const char *folder)
{
    tess_mem *mem;
    fr_files files;
    bool is = false;
    if (!tess_os_is_dir(folder) || tess_mem_create(&mem) != TESS_OK)
        return false;
    if (fr_files_list(mem, folder, &files) == TESS_OK) {
        for (size_t i = 0; i < files.n && !is; i++) {
            char path[4096];
            is = tess_os_join(path, sizeof(path), folder, files.file[i].name) == TESS_OK && dump_is(path);
        }
        fr_files_free(&files);
    }
    tess_mem_destroy(&mem);
    return is;
}
