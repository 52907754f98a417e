/* Computes the position of every tensor of a folder, and the headers and index that state it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/safetensors/safetensors_impl.h"

static const uint64_t default_shard_bytes = 5000000000; /* "5GB" in huggingface_hub's units */

typedef struct layout_item {
    const char *name;
    int file, dtype, entry;
} layout_item;

static int compare_items(const void *a, const void *b)
{
    const layout_item *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->dtype != y->dtype)
        return x->dtype > y->dtype ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Lists the tensors sorted by file, then dtype descending, then name. Without a plan, sorts them only by name. */
static tess_status sort_items(tess_mem *mem, const tess_st_tensor *tensors, int n, const tess_st_plan *plan,
                              layout_item **items)
{
    TESS_TRY(
        tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)n, sizeof((*items)[0]), "order of tensors", (void **)items));
    for (int i = 0; i < n; i++)
        (*items)[i] = (layout_item){.name = tensors[i].name,
                                    .file = plan != NULL ? plan->places[i].file : 0,
                                    .dtype = plan != NULL ? tess_st_dtype_number(tensors[i].dtype_text) : 0,
                                    .entry = i};
    if (n > 1)
        qsort(*items, (size_t)n, sizeof((*items)[0]), compare_items);
    return TESS_OK;
}

static tess_status check_names(tess_mem *mem, const tess_st_tensor *tensors, int n)
{
    TESS_AUTO(tess_mem_drop) layout_item *items = NULL;
    const char *twice = NULL;
    for (int i = 0; i < n; i++) {
        const char *name = tensors[i].name;
        size_t length = strlen(name);
        TESS_CHECK(length > 0 && strcmp(name, "__metadata__") != 0, TESS_E_INVALID,
                   "'%s' cannot be the name of a tensor", name);
        TESS_CHECK(tess_st_first_invalid((const uint8_t *)name, length) == length, TESS_E_INVALID,
                   "the name of a tensor is not UTF-8: '%s'", name);
    }
    TESS_TRY(sort_items(mem, tensors, n, NULL, &items));
    for (int i = 1; i < n && twice == NULL; i++)
        twice = strcmp(items[i - 1].name, items[i].name) == 0 ? items[i].name : NULL;
    TESS_CHECK(twice == NULL, TESS_E_INVALID, "two tensors to write are named '%s'", twice);
    return TESS_OK;
}

static tess_status measure(const tess_st_tensor *t, tess_st_place *place)
{
    size_t bits = (size_t)tess_st_dtype_bits(t->dtype_text);
    TESS_CHECK(bits > 0, TESS_E_INVALID, "tensor '%s': '%s' is no dtype of safetensors", t->name, t->dtype_text);
    TESS_CHECK(t->n_dims >= 0 && t->n_dims <= TESS_ST_MAX_DIMS, TESS_E_INVALID, "tensor '%s': %d dimensions", t->name,
               t->n_dims);
    bool overflow = false;
    for (int d = 0; d < t->n_dims; d++) {
        TESS_CHECK(t->dim[d] >= 0, TESS_E_INVALID, "tensor '%s': negative size %lld", t->name, (long long)t->dim[d]);
        overflow |= __builtin_mul_overflow(bits, (size_t)t->dim[d], &bits);
    }
    TESS_CHECK(!overflow && bits % 8 == 0, TESS_E_INVALID, "tensor '%s': too large, or not whole bytes", t->name);
    place->bytes = bits / 8;
    place->rows = t->n_dims > 0 ? (size_t)t->dim[0] : 1;
    place->row_bytes = place->rows > 0 && place->bytes % place->rows == 0 ? place->bytes / place->rows : 0;
    return TESS_OK;
}

/* Assigns tensors to files in the given order. A shard ends when the next tensor does not fit. */
static void assign_files(tess_st_plan *plan, uint64_t shard_bytes)
{
    uint64_t filled = 0;
    int file = 0, in_file = 0;
    for (int i = 0; i < plan->n_entries; i++) {
        if (in_file > 0 && plan->places[i].bytes > shard_bytes - filled) {
            file++;
            filled = in_file = 0;
        }
        plan->places[i].file = file;
        filled += plan->places[i].bytes;
        filled = filled > shard_bytes ? shard_bytes : filled;
        in_file++;
    }
    plan->n_files = file + 1;
}

/* Appends a JSON string. Escapes only what must be escaped, as serde_json does. */
static tess_status append_string(tess_buffer *out, const char *text)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    TESS_TRY(tess_buffer_append(out, "\"", 1));
    for (const char *c = text; *c != '\0'; c++) {
        const char *short_form = strchr(from, *c);
        if (short_form != NULL)
            TESS_TRY(tess_buffer_printf(out, "\\%c", to[short_form - from]));
        else if ((unsigned char)*c < 0x20)
            TESS_TRY(tess_buffer_printf(out, "\\u%04x", (unsigned)*c));
        else
            TESS_TRY(tess_buffer_append(out, c, 1));
    }
    return tess_buffer_append(out, "\"", 1);
}

tess_status tess_st_plan_header(const tess_st_plan *plan, const tess_st_tensor *tensors, int file, tess_buffer *out)
{
    static const char blank[8] = "        ";
    const tess_st_file *f = &plan->files[file];
    size_t at = 0, begin = out->size;
    TESS_TRY(tess_buffer_append(out, blank, 8));
    TESS_TRY(tess_buffer_printf(out, "{\"__metadata__\":{\"format\":\"pt\""));
    if (file == 0 && plan->description != NULL) {
        TESS_TRY(tess_buffer_printf(out, ",\"" TESS_ST_DESCRIPTION "\":"));
        TESS_TRY(append_string(out, plan->description));
    }
    TESS_TRY(tess_buffer_append(out, "}", 1));
    for (int i = f->first; i < f->first + f->n_entries; i++) {
        const tess_st_tensor *t = &tensors[plan->order[i]];
        size_t bytes = plan->places[plan->order[i]].bytes;
        TESS_TRY(tess_buffer_append(out, ",", 1));
        TESS_TRY(append_string(out, t->name));
        TESS_TRY(tess_buffer_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", t->dtype_text));
        for (int d = 0; d < t->n_dims; d++)
            TESS_TRY(tess_buffer_printf(out, "%s%lld", d > 0 ? "," : "", (long long)t->dim[d]));
        TESS_TRY(tess_buffer_printf(out, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes));
        at += bytes;
    }
    TESS_TRY(tess_buffer_append(out, "}", 1));
    TESS_TRY(tess_buffer_append(out, blank, (8 - (out->size - begin) % 8) % 8));
    uint64_t n = out->size - begin - 8;
    TESS_CHECK(n <= TESS_ST_MAX_HEADER, TESS_E_INVALID,
               "%s: a header of %llu bytes is more than safetensors allows: use smaller shards", f->name,
               (unsigned long long)n);
    for (int i = 0; i < 8; i++)
        out->data[begin + (size_t)i] = (char)(n >> 8 * i);
    return TESS_OK;
}

/* Formats the index as huggingface_hub does: two spaces, sorted keys, a newline at the end. */
tess_status tess_st_plan_index(tess_mem *mem, const tess_st_plan *plan, const tess_st_tensor *tensors, tess_buffer *out)
{
    TESS_AUTO(tess_mem_drop) layout_item *items = NULL;
    TESS_TRY(sort_items(mem, tensors, plan->n_entries, NULL, &items));
    TESS_TRY(tess_buffer_printf(out, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {",
                                (unsigned long long)plan->bytes));
    for (int i = 0; i < plan->n_entries; i++) {
        TESS_TRY(tess_buffer_printf(out, "%s\n    ", i > 0 ? "," : ""));
        TESS_TRY(append_string(out, items[i].name));
        TESS_TRY(tess_buffer_printf(out, ": \"%s\"", plan->files[plan->places[items[i].entry].file].name));
    }
    return tess_buffer_printf(out, "\n  }\n}\n");
}

/* Computes the offsets of tensors, which depend on the size of each file's header. */
static tess_status place_files(tess_mem *mem, const char *stem, const tess_st_tensor *tensors, tess_st_plan *plan)
{
    int next = 0;
    for (int file = 0; file < plan->n_files; file++) {
        tess_st_file *f = &plan->files[file];
        tess_buffer header = {.mem = mem};
        int n = plan->n_files == 1 ? snprintf(f->name, sizeof(f->name), "%s" TESS_ST_SUFFIX, stem)
                                   : snprintf(f->name, sizeof(f->name), "%s-%05d-of-%05d" TESS_ST_SUFFIX, stem,
                                              file + 1, plan->n_files);
        TESS_CHECK(n > 0 && (size_t)n < sizeof(f->name), TESS_E_INVALID, "file name too long: %s", stem);
        f->first = next;
        while (next < plan->n_entries && plan->places[plan->order[next]].file == file)
            next++;
        f->n_entries = next - f->first;
        tess_status status = tess_st_plan_header(plan, tensors, file, &header);
        f->bytes = header.size;
        tess_buffer_free(&header);
        TESS_TRY(status);
        for (int i = f->first; i < next; i++) {
            tess_st_place *place = &plan->places[plan->order[i]];
            place->offset = f->bytes;
            TESS_CHECK(!__builtin_add_overflow(f->bytes, place->bytes, &f->bytes) && f->bytes <= INT64_MAX,
                       TESS_E_INVALID, "%s would be larger than any file", f->name);
            plan->bytes += place->bytes;
        }
    }
    return TESS_OK;
}

static tess_status fill_plan(tess_mem *mem, const char *stem, const tess_st_tensor *tensors, size_t shard_bytes,
                             tess_st_plan *plan)
{
    size_t n = (size_t)plan->n_entries;
    TESS_AUTO(tess_mem_drop) layout_item *items = NULL;
    int length = snprintf(plan->index, sizeof(plan->index), "%s" TESS_ST_SUFFIX ".index.json", stem);
    TESS_CHECK(length < (int)sizeof(plan->index), TESS_E_INVALID, "file name too long: %s", stem);
    TESS_TRY(TESS_PART(plan, n, "layout of tensors", &plan->places));
    TESS_TRY(TESS_PART(plan, n, "layout of tensors", &plan->order));
    TESS_TRY(check_names(mem, tensors, plan->n_entries));
    for (int i = 0; i < plan->n_entries; i++)
        TESS_TRY(measure(&tensors[i], &plan->places[i]));
    assign_files(plan, shard_bytes == 0 ? default_shard_bytes : shard_bytes);
    TESS_TRY(TESS_PART(plan, plan->n_files, "layout of files", &plan->files));
    TESS_TRY(sort_items(mem, tensors, plan->n_entries, plan, &items));
    for (size_t i = 0; i < n; i++)
        plan->order[i] = items[i].entry;
    return place_files(mem, stem, tensors, plan);
}

tess_status tess_st_plan_create(tess_mem *mem, const char *stem, const tess_st_tensor *tensors, int n_tensors,
                                size_t shard_bytes, const char *description, tess_st_plan **plan)
{
    *plan = NULL;
    TESS_CHECK(n_tensors >= 0, TESS_E_INVALID, "%d tensors to write", n_tensors);
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(**plan), "layout of tensors", (void **)plan));
    **plan = (tess_st_plan){.n_entries = n_tensors, .description = description};
    tess_status status = fill_plan(mem, stem, tensors, shard_bytes, *plan);
    if (status != TESS_OK)
        tess_mem_drop(plan);
    return status;
}

tess_status tess_st_describe(const tess_st_entry *entry, tess_st_tensor *tensor)
{
    const char *dtype = tess_st_dtype_of(entry->dtype);
    TESS_CHECK(dtype != NULL && entry->shape.n_dims >= 0 && entry->shape.n_dims <= TESS_MAX_DIMS, TESS_E_INVALID,
               "tensor '%s': no such dtype or shape", entry->name);
    *tensor = (tess_st_tensor){.name = entry->name, .n_dims = entry->shape.n_dims};
    snprintf(tensor->dtype_text, sizeof(tensor->dtype_text), "%s", dtype);
    for (int d = 0; d < entry->shape.n_dims; d++)
        tensor->dim[d] = entry->shape.dim[d];
    return TESS_OK;
}
