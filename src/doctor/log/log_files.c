#include "doctor/log/log_files.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"

static tess_status add(tess_log_files *files, const char *path)
{
    size_t n = strlen(path) + 1;
    void *copy;
    if (files->n % 64 == 0)
        TESS_TRY(tess_mem_grow(files->mem, TESS_POOL_MISC, (size_t)(files->n + 64) * sizeof(*files->paths),
                               "names of logs", (void **)&files->paths));
    TESS_TRY(tess_mem_alloc(files->mem, TESS_POOL_MISC, n, "name of a log", &copy));
    memcpy(copy, path, n);
    files->paths[files->n++] = copy;
    return TESS_OK;
}

/* Whether the name belongs to another kind of text file that is often found next to logs. */
static bool is_named_otherwise(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL &&
           tess_text_has(dot, strlen(dot), TESS_WORD_IS,
                         ".py|.pyc|.sh|.c|.h|.cpp|.cu|.json|.jsonl|.yaml|.yml|.toml|.csv|.tsv|.html|.svg|.md");
}

/* Whether the file begins with text. A compressed or binary file has zeros or other control characters there. */
static bool is_text(const char *path)
{
    char head[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, head, sizeof(head)) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    if (log_encoding_of(head, (size_t)n) != LOG_BYTES)
        return true;
    for (ssize_t i = 0; i < n; i++)
        if ((unsigned char)head[i] < 0x20 && strchr("\t\n\r\f\b\a\x1b", head[i]) == NULL)
            return false;
    return true;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static tess_status take_entry(tess_log_files *files, FTS *tree, FTSENT *entry)
{
    bool is_hidden = entry->fts_level > 0 && entry->fts_name[0] == '.';
    if (entry->fts_info == FTS_D && is_hidden)
        fts_set(tree, entry, FTS_SKIP);
    if (entry->fts_info != FTS_F || is_hidden || is_named_otherwise(entry->fts_name) || !is_text(entry->fts_path))
        return TESS_OK;
    TESS_CHECK(files->n < LOG_MOST_FILES, TESS_E_INVALID, "more than %d logs: name fewer folders", LOG_MOST_FILES);
    return add(files, entry->fts_path);
}

static tess_status add_folder(tess_log_files *files, const char *folder)
{
    char path[4096], *roots[] = {path, NULL};
    size_t n = strlen(folder);
    int before = files->n;
    TESS_CHECK(n < sizeof(path), TESS_E_INVALID, "%s: the name is too long", folder);
    memcpy(path, folder, n + 1);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (tree == NULL)
        return tess_os_error("open", folder);
    tess_status status = TESS_OK;
    for (FTSENT *entry; status == TESS_OK && (entry = fts_read(tree)) != NULL;)
        status = take_entry(files, tree, entry);
    fts_close(tree);
    TESS_CHECK(status != TESS_OK || files->n > before, TESS_E_NOT_FOUND,
               "%s: no text file is below it that may be a log", folder);
    return status;
}

tess_status tess_log_files_find(tess_mem *mem, char *const *names, int n, tess_log_files *files)
{
    *files = (tess_log_files){.mem = mem};
    for (int i = 0; i < n; i++) {
        bool is_folder = strcmp(names[i], "-") != 0 && tess_os_is_dir(names[i]);
        TESS_TRY(is_folder ? add_folder(files, names[i]) : add(files, names[i]));
    }
    return TESS_OK;
}

void tess_log_files_free(tess_log_files *files)
{
    for (int i = 0; i < files->n; i++)
        tess_mem_free(files->mem, files->paths[i]);
    tess_mem_free(files->mem, files->paths);
    files->paths = NULL;
    files->n = 0;
}
