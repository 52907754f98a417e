/* Finds the files of a DeepSpeed checkpoint. */
#include <stdlib.h>
#include <string.h>

#include "base/mem/make_room.h"
#include "base/text/text.h"
#include "ckpt/formats/deepspeed_impl.h"
#include "ckpt/formats/formats.h"

/* Returns the number after `key` in a name; -1: none. */
static int number_after(const char *name, const char *key)
{
    const char *at = strstr(name, key);
    if (at == NULL || at[strlen(key)] < '0' || at[strlen(key)] > '9')
        return -1;
    long value = strtol(at + strlen(key), NULL, 10);
    return value < INT32_MAX ? (int)value : -1;
}

static tess_status add_file(tess_mem *mem, const char *name, ds_file **files, size_t *n, size_t *room)
{
    TESS_TRY(tess_mem_make_room(mem, TESS_POOL_MISC, *n, sizeof(ds_file), "files of DeepSpeed", room, files));
    int rank = number_after(name, "zero_pp_rank_");
    ds_file *file = &(*files)[(*n)++];
    *file = (ds_file){.rank = rank > 0 ? rank : 0};
    snprintf(file->name, sizeof(file->name), "%s", name);
    return TESS_OK;
}

static tess_status add_name(void *self, const char *name)
{
    ds_files *files = self;
    bool model = tess_text_ends_with(name, "_model_states.pt"), optim = tess_text_ends_with(name, "_optim_states.pt");
    if ((!model && !optim) || strlen(name) >= sizeof(files->model->name))
        return TESS_OK;
    TESS_CHECK(strncmp(name, "layer_", 6) != 0 && strstr(name, "expert_") == NULL && strstr(name, "expp_") == NULL,
               TESS_E_UNSUPPORTED, "%s: '%s': pipeline and expert parallel checkpoints of DeepSpeed are not read",
               files->folder, name);
    TESS_CHECK(number_after(name, "mp_rank_") <= 0, TESS_E_UNSUPPORTED,
               "%s: '%s': checkpoints of tensor parallel ranks (mp_rank_01 ..) are not read", files->folder, name);
    return model ? add_file(files->mem, name, &files->model, &files->n_model, &files->model_room)
                 : add_file(files->mem, name, &files->optim, &files->n_optim, &files->optim_room);
}

static int by_rank(const void *a, const void *b)
{
    const ds_file *x = a, *y = b;
    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank) : strcmp(x->name, y->name);
}

static tess_status check_ranks(const char *folder, ds_file *files, size_t n, const char *what)
{
    if (n > 0)
        qsort(files, n, sizeof(files[0]), by_rank);
    for (size_t i = 0; i < n; i++)
        TESS_CHECK(files[i].rank == (int)i, TESS_E_NOT_FOUND, "%s: the %s of rank %zu, beside '%s', is missing", folder,
                   what, i, files[0].name);
    return TESS_OK;
}

/* Reads the file `latest`, which contains the name of a folder next to it. */
static tess_status read_pointer(const char *path, char name[256])
{
    char pointer[DS_PATH];
    tess_mapping file;
    TESS_TRY(tess_os_join(pointer, sizeof(pointer), path, "latest"));
    TESS_TRY(tess_os_map(pointer, &file));
    size_t n = file.size < 255 ? file.size : 255;
    if (n > 0)
        memcpy(name, file.data, n);
    name[n] = '\0';
    tess_os_unmap(&file);
    name[strcspn(name, "\r\n")] = '\0';
    TESS_CHECK(name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL, TESS_E_FORMAT,
               "%s: the name of a folder beside it expected", pointer);
    return TESS_OK;
}

static tess_status resolve(const char *path, char *folder)
{
    char name[256];
    TESS_CHECK(snprintf(folder, DS_PATH, "%s", path) < DS_PATH, TESS_E_INVALID, "a path of more than %d bytes",
               DS_PATH);
    if (!tess_folder_holds(path, "latest"))
        return TESS_OK;
    TESS_TRY(read_pointer(path, name));
    return tess_os_join(folder, DS_PATH, path, name);
}

tess_status ds_list(tess_mem *mem, const char *path, ds_files *files)
{
    *files = (ds_files){.mem = mem};
    TESS_TRY(resolve(path, files->folder));
    TESS_TRY(tess_os_list(files->folder, add_name, files));
    TESS_CHECK(files->n_model > 0, TESS_E_NOT_FOUND, "%s: there is no *mp_rank_00_model_states.pt of DeepSpeed",
               files->folder);
    TESS_TRY(check_ranks(files->folder, files->model, files->n_model, "model's states"));
    return check_ranks(files->folder, files->optim, files->n_optim, "optimizer's states");
}

void ds_files_free(ds_files *files)
{
    tess_mem_free(files->mem, files->model);
    tess_mem_free(files->mem, files->optim);
    files->model = files->optim = NULL;
}

static tess_status see_state(void *self, const char *name)
{
    *(bool *)self = *(bool *)self || tess_text_ends_with(name, "mp_rank_00_model_states.pt");
    return TESS_OK;
}

bool tess_deepspeed_is_at(const char *path)
{
    char folder[DS_PATH];
    bool found = false;
    return tess_os_is_dir(path) && resolve(path, folder) == TESS_OK &&
           tess_os_list(folder, see_state, &found) == TESS_OK && found;
}
