#include "engine/model/tied_head.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"

static const char head_name[] = "lm_head.weight";
enum { PART_VALUES = 1 << 20 };

/* The head and the embedding table of a checkpoint, under the names that they have in a model that is not tied. */
typedef struct tied_pair {
    const tess_catalog *catalog;
    const tess_catalog_tensor *head, *table; /* NULL: the checkpoint does not have it */
} tied_pair;

static bool is_one_piece(const tied_pair *p)
{
    const tess_catalog_piece *a = &p->catalog->pieces[p->head->first_piece],
                             *b = &p->catalog->pieces[p->table->first_piece];
    return p->head->n_pieces == 1 && p->table->n_pieces == 1 && a->file == b->file && a->offset == b->offset &&
           strcmp(p->head->dtype, p->table->dtype) == 0;
}

/* Compares `n` rows. `buffer` has room for these rows of both tensors. */
static tess_status compare_rows(const tied_pair *p, int64_t begin, int64_t n, float *buffer, bool *equal)
{
    const int64_t width = p->head->dim[1];
    const tess_box rows = {.begin = {begin, 0}, .size = {n, width}};
    float *other = buffer + n * width;
    TESS_TRY(tess_catalog_read_floats(p->catalog, p->head, &rows, buffer));
    TESS_TRY(tess_catalog_read_floats(p->catalog, p->table, &rows, other));
    *equal = memcmp(buffer, other, (size_t)(n * width) * sizeof(float)) == 0;
    return TESS_OK;
}

/* Compares head and table. If their shapes differ, they differ. */
static tess_status compare(const tied_pair *p, bool *equal)
{
    TESS_AUTO(tess_mem_drop) float *buffer = NULL;
    const tess_catalog_tensor *head = p->head, *table = p->table;
    *equal = head->n_dims == 2 && table->n_dims == 2 && memcmp(head->dim, table->dim, sizeof(head->dim)) == 0;
    if (!*equal || is_one_piece(p))
        return TESS_OK;
    int64_t n_rows = head->dim[0], part = head->dim[1] < PART_VALUES ? PART_VALUES / (head->dim[1] + 1) : 1;
    TESS_TRY(tess_mem_alloc_array(p->catalog->mem, TESS_POOL_MISC, (size_t)(2 * part * head->dim[1]), sizeof(float),
                                  "rows of a head", (void **)&buffer));
    for (int64_t begin = 0; begin < n_rows && *equal; begin += part)
        TESS_TRY(compare_rows(p, begin, n_rows - begin < part ? n_rows - begin : part, buffer, equal));
    return TESS_OK;
}

static tess_status find_pair(const tess_catalog *catalog, const tess_model_config *config, tied_pair *p)
{
    TESS_AUTO(tess_model_destroy) tess_model *model = NULL;
    TESS_AUTO(tess_export_destroy) tess_export *list = NULL;
    tess_model_config untied = *config;
    untied.tied = untied.value_head = false;
    untied.lora.rank = 0;
    *p = (tied_pair){.catalog = catalog};
    TESS_TRY(tess_model_create(catalog->mem, &untied, &model));
    TESS_TRY(tess_weights_list(catalog, model, &list));
    p->head = tess_weights_find(list, head_name);
    p->table = tess_weights_find(list, tess_model_param(model, 0)->name);
    return TESS_OK;
}

/* Sets *tied to whether the weights are tied; -1: unknown, since they have no embedding. is_own: the run's own
 * checkpoint, which has a separate head only if the head is not tied. */
static tess_status judge(const tess_catalog *catalog, bool is_own, const tess_model_config *config, int *tied)
{
    tied_pair pair;
    TESS_TRY(find_pair(catalog, config, &pair));
    bool equal = pair.head == NULL;
    if (pair.head != NULL && pair.table != NULL && !is_own)
        TESS_TRY(compare(&pair, &equal));
    *tied = pair.table != NULL ? equal : -1;
    return TESS_OK;
}

static void report(const tess_reporter *reporter, const char *path)
{
    char text[1400];
    snprintf(text, sizeof(text),
             "warning: %.1024s: the weights have a head (%s) that differs from the embedding, though config.json ties "
             "them: the head is used and the model is not tied; tie_word_embeddings=false in config.json says so",
             path, head_name);
    if (reporter != NULL && reporter->line != NULL)
        reporter->line(reporter->self, text);
}

/* Sets config->tied by the weights at `path`. Returns whether they decide it. step >= 0: a checkpoint of the run
 * itself. */
static bool settle(const char *path, int64_t step, const tess_reporter *reporter, tess_model_config *config)
{
    tess_mem *mem = NULL;
    tess_catalog *catalog = NULL;
    int tied = -1;
    tess_status status = tess_mem_create(&mem);
    if (status == TESS_OK)
        status = step < 0 ? tess_catalog_open(mem, path, &catalog) : tess_ckpt_open_step(mem, path, step, &catalog);
    if (status == TESS_OK)
        status = judge(catalog, step >= 0, config, &tied);
    tess_catalog_destroy(&catalog);
    tess_mem_destroy(&mem);
    tess_error_clear(); /* the later loading of the weights reports why they cannot be read */
    if (status != TESS_OK || tied < 0)
        return false;
    if (tied == 0)
        report(reporter, path);
    config->tied = tied;
    return true;
}

void tess_untie_head(const char *path, const tess_reporter *reporter, tess_model_config *config)
{
    if (config->tied && path[0] != '\0')
        settle(path, -1, reporter, config);
}

/* Decides by the run's own newest checkpoint, unless folders are host-local: then one host's checkpoint may lack the
 * head's rows. */
static bool settle_by_own(const tess_config *run, const tess_reporter *reporter, tess_model_config *config)
{
    char folder[TESS_CKPT_PATH];
    int64_t step;
    bool found = run->checkpoint.enable && run->checkpoint.resume && !run->checkpoint.host_local &&
                 tess_os_join(folder, sizeof(folder), run->job.dump_folder, run->checkpoint.folder) == TESS_OK &&
                 tess_ckpt_latest(folder, NULL, &step) == TESS_OK;
    tess_error_clear();
    return found && settle(folder, step, reporter, config);
}

void tess_config_untie_head(const tess_config *run, const tess_reporter *reporter, tess_model_config *config)
{
    const char *path = run->checkpoint.initial_load_path;
    if (config->tied && !settle_by_own(run, reporter, config))
        tess_untie_head(path[0] != '\0' ? path : run->model.path, reporter, config);
}
