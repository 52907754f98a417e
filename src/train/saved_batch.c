/* The batch that a run began with is its own, whatever the number of ranks that it goes on with. */
#include "base/os/os.h"
#include "base/text/json.h"
#include "ckpt/store/read.h"
#include "ckpt/store/store.h"
#include "train/train.h"

static tess_status read_batch(tess_mem *mem, const tess_config *config, int64_t *rows)
{
    char folder[TESS_CKPT_PATH];
    tess_catalog *catalog;
    int64_t step = config->checkpoint.load_step;
    TESS_TRY(tess_os_join(folder, sizeof(folder), config->job.dump_folder, config->checkpoint.folder));
    if (step < 0)
        TESS_TRY(tess_ckpt_latest(folder, NULL, &step));
    TESS_TRY(tess_ckpt_open_step(mem, folder, step, &catalog));
    const json_t *meta = json_object_get(catalog->meta, "meta");
    tess_status status = tess_json_get_int(meta, "global_batch_size", folder, rows);
    tess_catalog_destroy(&catalog);
    return status;
}

void tess_train_take_batch(tess_mem *mem, tess_config *config)
{
    int64_t rows = 0;
    bool is_open = config->training.global_batch_size == 0;
    if (!is_open || !config->checkpoint.enable || !config->checkpoint.resume)
        return;
    if (read_batch(mem, config, &rows) != TESS_OK)
        tess_error_clear();
    else if (rows > 0)
        config->training.global_batch_size = rows;
}
