/* Opens a checkpoint of any format. Each format is one row of a table; rows are tried in order. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "ckpt/formats/formats.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "ckpt/store/store_write.h"

enum { PATH_SIZE = 4096, NOTE_SIZE = 1024 };

typedef struct opener {
    const char *what; /* name of the format in the message when no row matches */
    bool (*fits)(const char *path);
    tess_status (*open)(tess_mem *mem, const char *path, tess_catalog **catalog);
} opener;

static bool is_safetensors(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (tess_os_is_file(path))
        return dot != NULL && strcmp(dot, ".safetensors") == 0;
    return tess_folder_holds(path, "model.safetensors") || tess_folder_holds(path, "model.safetensors.index.json");
}

static bool is_step(const char *path)
{
    return tess_folder_holds(path, TESS_STORE_MARKER) || tess_folder_holds(path, TESS_STORE_MANIFEST) ||
           (tess_folder_holds(path, "meta.json") && tess_folder_holds(path, "optimizer.safetensors"));
}

static void note_first(void *self, const char *text)
{
    char *first = self;
    if (first[0] == '\0')
        snprintf(first, NOTE_SIZE, "%s", text);
}

/* Finds the newest complete step. damaged (NOTE_SIZE) becomes the note on the first checkpoint that does not count, or
 * "". */
static tess_status find_newest(const char *path, int64_t *step, char *damaged)
{
    const tess_ckpt_listener listener = {.self = damaged, .note = note_first};
    damaged[0] = '\0';
    return tess_ckpt_latest(path, &listener, step);
}

/* Whether the folder contains steps. True also if all are damaged: opening them then reports it. */
static bool is_folder_of_steps(const char *path)
{
    int64_t step;
    char damaged[NOTE_SIZE] = "";
    tess_status status = tess_os_is_dir(path) ? find_newest(path, &step, damaged) : TESS_E_NOT_FOUND;
    tess_error_clear();
    return damaged[0] != '\0' || status != TESS_E_NOT_FOUND;
}

/* Opens the newest step. If it is damaged, fails with a message that names it and the newest complete one, instead of
 * silently opening that one. */
static tess_status open_newest(tess_mem *mem, const char *path, tess_catalog **catalog)
{
    int64_t step;
    char damaged[NOTE_SIZE];
    tess_status status = find_newest(path, &step, damaged);
    TESS_CHECK(status != TESS_E_NOT_FOUND || damaged[0] == '\0', TESS_E_FORMAT, "%s; no other there is whole", damaged);
    TESS_TRY(status);
    TESS_CHECK(damaged[0] == '\0', TESS_E_FORMAT,
               "%s; the newest that is whole is of step %" PRId64 ": name its folder to take that one", damaged, step);
    return tess_ckpt_open_step(mem, path, step, catalog);
}

static const opener openers[] = {
    {"a Tessera checkpoint", is_step, tess_store_open},
    {"a folder of them", is_folder_of_steps, open_newest},
    {"a safetensors file, or a model folder with model.safetensors", is_safetensors, tess_catalog_open_safetensors},
    {"a folder of PyTorch's distributed checkpoint or Megatron's", tess_dcp_is_at, tess_dcp_open},
    {"a folder of DeepSpeed's", tess_deepspeed_is_at, tess_deepspeed_open},
    {"a file of torch.save, a folder with one a rank or with pytorch_model.bin", tess_torch_is_at, tess_torch_open},
};

/* Fails because no format matches. If the path is a job's folder, the message points to its checkpoints, in the folder
 * "checkpoint". */
static tess_status fail_unknown(const char *path)
{
    char kinds[1024], below[PATH_SIZE];
    bool job = tess_os_join(below, sizeof(below), path, "checkpoint") == TESS_OK && tess_os_is_dir(below);
    TESS_CHECK(!job, TESS_E_UNSUPPORTED, "%s: it is no checkpoint: did you mean %s?", path, below);
    size_t at = 0, n = sizeof(openers) / sizeof(openers[0]);
    for (size_t i = 0; i < n; i++)
        at = tess_text_add(kinds, sizeof(kinds), at, "%s%s", i == 0 ? "" : "; ", openers[i].what);
    return TESS_FAIL(TESS_E_UNSUPPORTED, "%s: it is none of: %s", path, kinds);
}

/* Fails if the path is neither a folder nor a readable file, before any format is tried. */
static tess_status check_path(const char *path)
{
    tess_os_entry entry;
    uint64_t size;
    int fd;
    TESS_TRY(tess_os_look_up(path, &entry));
    TESS_CHECK(entry.kind != TESS_OS_NOTHING, TESS_E_NOT_FOUND, "%s: no such file or folder", path);
    if (entry.kind == TESS_OS_FOLDER)
        return TESS_OK;
    TESS_TRY(tess_os_open_read(path, &fd, &size));
    tess_os_close(&fd);
    return TESS_OK;
}

tess_status tess_catalog_open(tess_mem *mem, const char *path, tess_catalog **catalog)
{
    *catalog = NULL;
    TESS_TRY(check_path(path));
    for (size_t i = 0; i < sizeof(openers) / sizeof(openers[0]); i++)
        if (openers[i].fits(path))
            return openers[i].open(mem, path, catalog);
    return fail_unknown(path);
}
