/* The streaming writer of one process: the writer of many ranks, alone, fed in file order. */
#include "ckpt/safetensors/safetensors_impl.h"

static const size_t staging_bytes = 4 << 20;

/* Rows at a time: what fits the staging buffer, at least one. */
static size_t rows_at_a_time(const tess_st_place *place)
{
    size_t rows = place->row_bytes == 0 ? place->rows : staging_bytes / place->row_bytes;
    rows = rows == 0 ? 1 : rows;
    return rows < place->rows ? rows : place->rows;
}

static tess_status stream_tensor(tess_st_writer *writer, int entry, tess_st_source_fn source, void *context,
                                 void *staging)
{
    const tess_st_place *place = &tess_st_writer_plan(writer)->places[entry];
    size_t step = rows_at_a_time(place);
    if (place->bytes == 0)
        return TESS_OK;
    for (size_t row = 0; row < place->rows; row += step) {
        int64_t n = (int64_t)(place->rows - row < step ? place->rows - row : step);
        TESS_TRY(source(context, entry, (int64_t)row, n, staging));
        TESS_TRY(tess_st_write_rows(writer, entry, (int64_t)row, n, staging));
    }
    return TESS_OK;
}

static tess_status stream(tess_mem *mem, tess_st_writer *writer, tess_st_source_fn source, void *context)
{
    const tess_st_plan *plan = tess_st_writer_plan(writer);
    void *staging;
    size_t largest = 0;
    for (int i = 0; i < plan->n_entries; i++) {
        size_t bytes = rows_at_a_time(&plan->places[i]) * plan->places[i].row_bytes;
        largest = bytes > largest ? bytes : largest;
    }
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, largest, "rows to write", &staging));
    tess_status status = TESS_OK;
    for (int i = 0; i < plan->n_entries && status == TESS_OK; i++)
        status = stream_tensor(writer, plan->order[i], source, context, staging);
    tess_mem_free(mem, staging);
    return status;
}

tess_status tess_st_write_model(tess_mem *mem, const char *folder, const tess_st_entry *entries, int n_entries,
                                size_t shard_bytes, tess_st_source_fn source, void *context)
{
    tess_st_tensor *tensors;
    tess_st_writer *writer = NULL;
    tess_status status = TESS_OK;
    TESS_CHECK(n_entries >= 0, TESS_E_INVALID, "%d tensors to write", n_entries);
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n_entries, sizeof(tensors[0]), "tensors to write",
                                  (void **)&tensors));
    for (int i = 0; i < n_entries && status == TESS_OK; i++)
        status = tess_st_describe(&entries[i], &tensors[i]);
    if (status == TESS_OK)
        status = tess_st_write_begin(mem, NULL, folder, "model", tensors, n_entries, shard_bytes, &writer);
    tess_mem_free(mem, tensors);
    TESS_TRY(status);
    return tess_st_write_finish(&writer, stream(mem, writer, source, context));
}
