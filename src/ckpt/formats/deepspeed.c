/* Opens DeepSpeed's ZeRO checkpoints. DeepSpeed's utils/zero_to_fp32.py documents their layout. */
#include <string.h>

#include "ckpt/formats/deepspeed_impl.h"
#include "ckpt/formats/formats.h"

typedef struct deepspeed_reader {
    tess_catalog *catalog;
    const ds_files *files;
    torch_file model; /* the first rank's model file; `params` and `frozen` borrow its names */
    int model_file;   /* index of that file in the catalog */
    ds_params params, frozen;
    int stage;
    int64_t *begins; /* (n_groups * N_KINDS) number of elements of each group vector that lower ranks hold */
} deepspeed_reader;

/* ---- The optimizer's state ---- */
enum { MASTER, MOMENT_1, MOMENT_2, N_KINDS };

static const struct {
    const char *key, *prefix, *suffix;
} kinds[N_KINDS] = {
    [MASTER] = {NULL, "model.", ""},
    [MOMENT_1] = {"exp_avg", "optimizer.", ".exp_avg"},
    [MOMENT_2] = {"exp_avg_sq", "optimizer.", ".exp_avg_sq"},
};

static const tess_pickle_value *get_index(const tess_pickle_value *dict, int64_t index)
{
    int64_t key;
    for (size_t i = 0; dict != NULL && dict->kind == TESS_PICKLE_DICT && i + 1 < dict->n; i += 2)
        if (torch_read_int(dict->items[i], &key) && key == index)
            return dict->items[i + 1];
    return NULL;
}

/* Returns the state of flat tensor `index`, from a list or from the state_dict of an optimizer. */
static const tess_pickle_value *find_state(const tess_pickle_value *optimizer, int64_t index)
{
    if (optimizer != NULL && optimizer->kind == TESS_PICKLE_LIST)
        return tess_pickle_at(optimizer, (size_t)index);
    return get_index(tess_pickle_get(optimizer, "state"), index);
}

/* Returns the number of ranks, which ZeRO 1 and 2 state for each group; 0: not stated. */
static int64_t find_ranks(const tess_pickle_value *optim)
{
    int64_t n = 0, most = 0;
    const tess_pickle_value *value = tess_pickle_get(optim, "partition_count");
    if (torch_read_int(value, &n))
        return n;
    for (size_t i = 0; tess_pickle_at(value, i) != NULL; i++)
        if (torch_read_int(tess_pickle_at(value, i), &n) && n > most)
            most = n;
    return most;
}

/* Adds a flat tensor of a kind, whose elements begin at *begin. *begin becomes their end. */
static tess_status add_flat(deepspeed_reader *reader, ds_flat *flat, const tess_pickle_value *value, int kind,
                            int64_t *begin)
{
    TESS_TRY(torch_read_tensor(flat->from.file, value, &flat->tensor));
    flat->prefix = kinds[kind].prefix;
    flat->suffix = kinds[kind].suffix;
    flat->begin = *begin;
    TESS_TRY(ds_add_flat(flat, &reader->params));
    TESS_CHECK(!__builtin_add_overflow(*begin, flat->tensor.dim[0], begin), TESS_E_FORMAT, "too many elements");
    return TESS_OK;
}

/* Adds the flat tensors of a kind from a rank's file. With ZeRO 3 each continues where the previous one ended. */
static tess_status add_kind(deepspeed_reader *reader, ds_flat *flat, const tess_pickle_value *optim, int kind)
{
    bool partitioned = reader->stage == 3;
    const tess_pickle_value *adam =
        tess_pickle_get(optim, partitioned ? "optimizer_state_dict" : "base_optimizer_state");
    const tess_pickle_value *flats =
        tess_pickle_get(optim, partitioned ? "fp32_flat_groups" : "single_partition_of_fp32_groups");
    size_t n_groups = (size_t)reader->params.n_groups;
    TESS_CHECK(flats != NULL && flats->kind == TESS_PICKLE_LIST && (partitioned || flats->n == n_groups), TESS_E_FORMAT,
               "it has no flat float32 tensors, one for each group of parameters");
    int64_t in_rank = 0;
    for (size_t i = 0; i < flats->n; i++) {
        const tess_pickle_value *value =
            kind == MASTER ? flats->items[i] : tess_pickle_get(find_state(adam, (int64_t)i), kinds[kind].key);
        if (value == NULL) /* some values are missing if the optimizer is not Adam */
            continue;
        flat->group = (int)i;
        TESS_TRY_CTX(add_flat(reader, flat, value, kind,
                              partitioned ? &in_rank : &reader->begins[kind * reader->params.n_groups + (int)i]),
                     "flat tensor %zu (%s)", i, kind == MASTER ? "masters" : kinds[kind].key);
    }
    return TESS_OK;
}

static tess_status add_optim(deepspeed_reader *reader, const torch_file *file, int rank)
{
    const tess_pickle_value *optim = tess_pickle_get(file->root, "optimizer_state_dict");
    ds_flat flat = {.from = {.catalog = reader->catalog, .file = file, .rank = rank}};
    int64_t stage = 0, n_ranks = find_ranks(optim);
    if (!torch_read_int(tess_pickle_get(optim, "zero_stage"), &stage) || stage < 1 || stage > 3)
        stage = tess_pickle_get(optim, "fp32_flat_groups") != NULL ? 3 : 1;
    reader->stage = (int)stage;
    TESS_CHECK(n_ranks == 0 || n_ranks == (int64_t)reader->files->n_optim, TESS_E_NOT_FOUND,
               "it is of %lld ranks, but there are files of %zu", (long long)n_ranks, reader->files->n_optim);
    flat.n_ranks = reader->stage == 3 ? (int)reader->files->n_optim : 0;
    TESS_TRY(tess_catalog_add_file(reader->catalog, file->path, file->mapping.size, &flat.from.catalog_file));
    TESS_TRY(torch_add_ranges(&flat.from));
    for (int kind = 0; kind < N_KINDS; kind++)
        TESS_TRY(add_kind(reader, &flat, optim, kind));
    return TESS_OK;
}

static tess_status add_optims(deepspeed_reader *reader)
{
    char path[DS_PATH];
    torch_file file;
    const ds_files *files = reader->files;
    for (size_t i = 0; i < files->n_optim; i++) {
        TESS_TRY(tess_os_join(path, sizeof(path), files->folder, files->optim[i].name));
        TESS_TRY(torch_open_file(reader->catalog->mem, path, &file));
        tess_status status = add_optim(reader, &file, files->optim[i].rank);
        torch_close(&file);
        TESS_TRY_CTX(status, "%s", path);
    }
    for (int group = 0; files->n_optim > 0 && reader->stage < 3 && group < reader->params.n_groups; group++)
        TESS_CHECK(reader->begins[group] >= ds_group_count(&reader->params, group), TESS_E_FORMAT,
                   "%s: the ranks hold %lld elements of parameter group %d, which has %lld", files->folder,
                   (long long)reader->begins[group], group, (long long)ds_group_count(&reader->params, group));
    return TESS_OK;
}

/* ---- The model's file ---- */
/* Adds the parts of frozen parameters. With ZeRO 3 the model file of every rank contains them. */
static tess_status add_frozen_parts(deepspeed_reader *reader, const torch_source *from)
{
    const tess_pickle_value *parts = tess_pickle_get(from->file->root, "frozen_param_fragments");
    ds_flat flat = {.from = *from, .n_ranks = (int)reader->files->n_model, .prefix = "model.", .suffix = ""};
    for (size_t i = 0; i < reader->frozen.n; i++) {
        const ds_param *param = &reader->frozen.params[i];
        TESS_TRY_CTX(torch_read_tensor(from->file, tess_pickle_get(parts, param->name), &flat.tensor), "'%s'",
                     param->name);
        TESS_TRY_CTX(ds_add_part(&flat, param), "'%s'", param->name);
    }
    return TESS_OK;
}

static tess_status add_frozen(deepspeed_reader *reader)
{
    char path[DS_PATH];
    int catalog_file;
    const ds_files *files = reader->files;
    const torch_source model = {reader->catalog, &reader->model, reader->model_file, 0};
    if (reader->stage == 3)
        TESS_TRY(add_frozen_parts(reader, &model));
    for (size_t i = 1; reader->stage == 3 && reader->frozen.n > 0 && i < files->n_model; i++) {
        TESS_AUTO(torch_close) torch_file file = {0};
        TESS_TRY(tess_os_join(path, sizeof(path), files->folder, files->model[i].name));
        TESS_TRY(torch_open_file(reader->catalog->mem, path, &file));
        TESS_TRY_CTX(tess_catalog_add_file(reader->catalog, path, file.mapping.size, &catalog_file), "%s", path);
        const torch_source from = {reader->catalog, &file, catalog_file, files->model[i].rank};
        TESS_TRY_CTX(torch_add_ranges(&from), "%s", path);
        TESS_TRY_CTX(add_frozen_parts(reader, &from), "%s", path);
    }
    return TESS_OK;
}

/* Adds the model's tensors that have no float32 master in the optimizer: buffers, frozen parameters or, without an
 * optimizer, all of them. Further names of a shared tensor are left out; meta lists them ("shared_params"). */
static tess_status add_module(deepspeed_reader *reader)
{
    torch_walk walk = {.from = {reader->catalog, &reader->model, reader->model_file, -1}, .left = TORCH_VALUES};
    const tess_pickle_value *module = tess_pickle_get(reader->model.root, "module"),
                            *shared = tess_pickle_get(reader->model.root, "shared_params");
    bool masters = reader->files->n_optim > 0;
    char name[1024];
    TESS_CHECK(module != NULL && module->kind == TESS_PICKLE_DICT, TESS_E_FORMAT, "%s: it has no 'module'",
               reader->model.path);
    for (size_t i = 0; i + 1 < module->n; i += 2) {
        const char *key = tess_pickle_text(module->items[i]);
        if (key == NULL || (masters && json_object_get(reader->params.names, key) != NULL) ||
            tess_pickle_get(shared, key) != NULL ||
            (reader->stage == 3 && json_object_get(reader->frozen.names, key) != NULL))
            continue;
        snprintf(name, sizeof(name), "model.%s", key);
        TESS_TRY(torch_walk_value(&walk, name, module->items[i + 1], NULL));
    }
    return TESS_OK;
}

/* Adds the state of the optimizer when ZeRO is off (stage 0). It is in the model file then, and numbers its
 * parameters. */
static tess_status add_plain_optimizer(deepspeed_reader *reader)
{
    torch_walk walk = {.from = {reader->catalog, &reader->model, reader->model_file, -1}, .left = TORCH_VALUES};
    const tess_pickle_value *state = tess_pickle_get(tess_pickle_get(reader->model.root, "optimizer"), "state");
    return reader->files->n_optim > 0 || state == NULL ? TESS_OK
                                                       : torch_walk_value(&walk, "optimizer.state", state, NULL);
}

static void add_meta(deepspeed_reader *reader)
{
    static const char *const tensors[] = {"module", "param_shapes", "frozen_param_shapes", "frozen_param_fragments"};
    const tess_pickle_value *root = reader->model.root;
    char key[256];
    int left = TORCH_META_VALUES;
    for (size_t i = 0; i + 1 < root->n; i += 2) {
        bool skip = !torch_key(root->items[i], key, sizeof(key));
        for (size_t j = 0; j < sizeof(tensors) / sizeof(tensors[0]) && !skip; j++)
            skip = strcmp(key, tensors[j]) == 0;
        if (!skip)
            json_object_set_new(reader->catalog->meta, key, torch_to_json(root->items[i + 1], &left));
    }
    json_object_set_new(reader->catalog->meta, "model_prefix", json_string("model."));
}

static tess_status read_model(deepspeed_reader *reader, char *path)
{
    TESS_TRY(tess_os_join(path, DS_PATH, reader->files->folder, reader->files->model[0].name));
    TESS_TRY(torch_open_file(reader->catalog->mem, path, &reader->model));
    const tess_pickle_value *root = reader->model.root;
    TESS_CHECK(root->kind == TESS_PICKLE_DICT, TESS_E_FORMAT, "%s: a dict expected", path);
    TESS_TRY(tess_catalog_add_file(reader->catalog, path, reader->model.mapping.size, &reader->model_file));
    const torch_source model = {reader->catalog, &reader->model, reader->model_file, 0};
    TESS_TRY(torch_add_ranges(&model));
    TESS_TRY_CTX(ds_add_shapes(&reader->params, root, "param_shapes"), "%s", path);
    TESS_TRY_CTX(ds_add_shapes(&reader->frozen, root, "frozen_param_shapes"), "%s", path);
    return tess_mem_alloc_array(reader->catalog->mem, TESS_POOL_MISC, (size_t)reader->params.n_groups * N_KINDS,
                                sizeof(int64_t), "begins of flat tensors", (void **)&reader->begins);
}

static tess_status read_all(deepspeed_reader *reader)
{
    char path[DS_PATH]; /* path of the model file, borrowed while that file is open */
    tess_status status = read_model(reader, path);
    if (status == TESS_OK)
        status = add_optims(reader);
    if (status == TESS_OK)
        status = add_frozen(reader);
    if (status == TESS_OK)
        status = add_module(reader);
    if (status == TESS_OK)
        status = add_plain_optimizer(reader);
    if (status == TESS_OK)
        add_meta(reader);
    torch_close(&reader->model);
    ds_params_free(&reader->params);
    ds_params_free(&reader->frozen);
    tess_mem_free(reader->catalog->mem, reader->begins);
    return status;
}

tess_status tess_deepspeed_open(tess_mem *mem, const char *path, tess_catalog **catalog)
{
    TESS_AUTO(ds_files_free) ds_files files = {0};
    *catalog = NULL;
    TESS_TRY(ds_list(mem, path, &files));
    TESS_TRY(tess_catalog_create(mem, "deepspeed", path, catalog));
    deepspeed_reader reader = {.catalog = *catalog, .files = &files, .params = {.mem = mem}, .frozen = {.mem = mem}};
    return formats_finish(catalog, read_all(&reader));
}
