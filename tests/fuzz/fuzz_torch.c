/* Any bytes as an archive of torch.save, and as the pickle in one: refused with a message, or tensors that lie inside
 * of the archive. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/formats/deepspeed_impl.h"
#include "ckpt/formats/torch_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static tess_mem *mem;

static void expect(bool condition)
{
    if (!condition)
        abort();
}

static void check_pieces(const tess_catalog *catalog, size_t size)
{
    for (int i = 0; i < catalog->n_pieces; i++) {
        const tess_catalog_piece *piece = &catalog->pieces[i];
        expect(piece->offset <= size && piece->stored <= size - piece->offset);
    }
}

/* Everything of the value into a catalog; `size`: of the archive. */
static void walk(const torch_file *file, size_t size)
{
    tess_catalog *catalog = NULL;
    torch_walk *walk = calloc(1, sizeof(*walk));
    expect(walk != NULL && tess_catalog_create(mem, "torch.save", "fuzz", &catalog) == TESS_OK);
    walk->from = (torch_source){.catalog = catalog, .file = file, .rank = size % 3 == 0 ? -1 : 1};
    walk->left = 1 << 14;
    walk->left_meta = 1 << 12;
    expect(tess_catalog_add_file(catalog, "fuzz", size, &walk->from.catalog_file) == TESS_OK);
    if (torch_walk_value(walk, "", file->root, catalog->meta) == TESS_OK && tess_catalog_finish(catalog) == TESS_OK)
        check_pieces(catalog, size);
    tess_catalog_destroy(&catalog);
    free(walk);
}

/* Shapes and a flat tensor as DeepSpeed has them. */
static void flat(const torch_file *file, size_t size)
{
    ds_params params = {.mem = mem};
    ds_flat flat = {.prefix = "model.", .suffix = "", .n_ranks = size % 2 ? 3 : 0, .begin = 2};
    torch_source *from = &flat.from;
    const tess_pickle_value *value = tess_pickle_get(file->root, "flat");
    from->file = file;
    from->rank = 1;
    expect(tess_catalog_create(mem, "deepspeed", "fuzz", &from->catalog) == TESS_OK);
    expect(tess_catalog_add_file(from->catalog, "fuzz", size, &from->catalog_file) == TESS_OK);
    if (ds_add_shapes(&params, file->root, "param_shapes") == TESS_OK &&
        torch_read_tensor(file, value, &flat.tensor) == TESS_OK && ds_add_flat(&flat, &params) == TESS_OK &&
        tess_catalog_finish(from->catalog) == TESS_OK)
        check_pieces(from->catalog, size);
    ds_params_free(&params);
    tess_catalog_destroy(&from->catalog);
}

static void open_archive(const uint8_t *data, size_t size)
{
    torch_file file;
    if (torch_open_slice(mem, "fuzz", data, size, 0, &file) == TESS_OK) {
        walk(&file, size);
        torch_close(&file);
    } else {
        expect(tess_error_message()[0] != '\0');
    }
}

/* Reads the input as data.pkl of an archive with four records of 64 bytes. */
static void open_pickle(const uint8_t *data, size_t size)
{
    zip_entry entries[4];
    char names[4][8];
    torch_file file = {.mem = mem, .path = "fuzz"};
    for (int i = 0; i < 4; i++) {
        snprintf(names[i], sizeof(names[i]), "data/%d", i);
        entries[i] = (zip_entry){.name = names[i], .offset = 64 * (uint64_t)i, .stored = 64, .bytes = 64};
    }
    file.archive = (zip){.n = 4, .entries = entries};
    if (tess_pickle_parse(mem, data, size, "fuzz", NULL, &file.pickle) != TESS_OK)
        return;
    file.root = tess_pickle_root(file.pickle);
    walk(&file, 256);
    flat(&file, 256);
    flat(&file, 257);
    tess_pickle_destroy(&file.pickle);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (mem == NULL && tess_mem_create(&mem) != TESS_OK)
        abort();
    open_archive(data, size);
    open_pickle(data, size);
    expect(tess_mem_stats(mem, TESS_POOL_MISC).n_blocks == 0);
    return 0;
}
