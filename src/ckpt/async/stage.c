/* A rank's stage: assigns a place to each tensor's elements, and copies them. Pieces begin at multiples of a disk
 * block, in the order of the file, so that the writer can pass the stage itself to the disk. */
#include <string.h>
#include <sys/mman.h>

#include "base/core/round_up.h"
#include "ckpt/async/saver_impl.h"
#include "ckpt/safetensors/safetensors.h"
#include "base/mem/scoped.h"

#if !defined(MADV_COLLAPSE)
#define MADV_COLLAPSE 25 /* since Linux 6.1; an older kernel refuses it */
#endif

enum { BLOCK = 4096, GATHERED = 8192 /* number of values that a thread copies at a time */ };
static const size_t huge_page = (size_t)2 << 20;

/* ---- The plan ---- */
static bool is_planned(const tess_saver *s, const tess_ckpt_tensor *tensors, int n)
{
    if (s->pieces == NULL || s->n_pieces != n)
        return false;
    for (int i = 0; i < n; i++) {
        const tess_ckpt_tensor *p = &s->pieces[i].tensor, *t = &tensors[i];
        if (p->name != t->name || p->state != t->state || p->dtype != t->dtype || p->stored != t->stored ||
            !tess_shape_equal(&p->shape, &t->shape) || !tess_box_equal(tess_ckpt_dims(t), &p->primary, &t->primary))
            return false;
    }
    return true;
}

tess_status async_stage_plan(tess_saver *s, const tess_ckpt_tensor *tensors, int n)
{
    size_t at = 0;
    if (is_planned(s, tensors, n))
        return TESS_OK;
    tess_mem_drop(&s->pieces);
    TESS_TRY(TESS_NEW(s->mem, n, "stage of saves", &s->pieces));
    s->n_pieces = n;
    s->payload = 0;
    for (int i = 0; i < n; i++) {
        const tess_ckpt_tensor *t = &tensors[i];
        async_piece *p = &s->pieces[i];
        *p = (async_piece){.tensor = *t, .offset = at};
        p->bytes = (uint64_t)tess_ckpt_count(t, &t->primary) * tess_dtype_size(t->stored);
        at += tess_round_up(p->bytes, BLOCK);
        s->payload += p->bytes;
    }
    s->data_bytes = at;
    return TESS_OK;
}

/* ---- Its memory ---- */
/* Populates pages with all threads, huge pages where the kernel supports them: they speed up the copy, and the disk
 * reads longer runs. MADV_COLLAPSE needs one present page in each huge page. */
static void populate(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    uint8_t *from = (uint8_t *)context + begin;
    size_t size = (size_t)(end - begin);
    for (size_t at = 0; at < size; at += huge_page)
        tess_os_populate(from + at, BLOCK);
    if (madvise(from, size, MADV_COLLAPSE) != 0)
        tess_os_populate(from, size);
}

void async_stage_unmap(tess_saver *s)
{
    if (s->stage == NULL)
        return;
    tess_os_unmap_shared(s->stage, s->stage_bytes);
    tess_mem_count(s->mem, TESS_POOL_MISC, -(int64_t)s->stage_bytes);
    s->stage = NULL;
    s->stage_bytes = 0;
}

size_t async_stage_bytes(const tess_saver *s, size_t text_bytes)
{
    return tess_round_up(s->data_bytes + text_bytes, huge_page);
}

tess_status async_stage_map(tess_saver *s, size_t text_bytes)
{
    size_t bytes = async_stage_bytes(s, text_bytes);
    if (bytes <= s->stage_bytes)
        return TESS_OK;
    async_stage_unmap(s);
    TESS_TRY(async_area_map_stage(&s->area, s->slot, bytes, &s->stage));
    s->stage_bytes = bytes;
    tess_mem_count(s->mem, TESS_POOL_MISC, (int64_t)bytes);
    /* Fails if shared memory has no huge pages; the copy is then slower */
    (void)madvise(s->stage, bytes, MADV_HUGEPAGE);
    tess_threads_run(s->threads, populate, s->stage, (int64_t)bytes, (int64_t)huge_page);
    return TESS_OK;
}

/* ---- The copy ---- */
typedef struct copy {
    tess_saver *saver;
    const tess_ckpt_tensor *tensors;
} copy;

/* Copies bytes [begin, end) of a piece, which are whole elements. */
static void copy_elements(tess_saver *s, const async_piece *piece, const tess_ckpt_tensor *tensor, uint64_t begin,
                          uint64_t end)
{
    float gathered[GATHERED];
    uint8_t *to = s->stage + piece->offset;
    tess_dtype stored = piece->tensor.stored;
    uint64_t size = tess_dtype_size(stored), most = GATHERED * size;
    const void *run = tess_ckpt_primary_run(tensor);
    bool rounds = stored != tensor->dtype;
    if (run != NULL && !rounds) {
        async_copy(to + begin, (const uint8_t *)run + begin, end - begin);
        return;
    }
    for (uint64_t at = begin; at < end; at += most) {
        int64_t first = (int64_t)(at / size), n = (int64_t)((end - at < most ? end - at : most) / size);
        if (run == NULL)
            tess_ckpt_primary_copy(tensor, first, n, rounds ? (void *)gathered : to + at);
        if (rounds)
            (void)tess_st_encode(run != NULL ? (const float *)run + first : gathered, n, stored, to + at);
    }
}

/* Copies bytes [begin, end) of a piece, and fills the rest of its last block with zeros. */
static void copy_piece(tess_saver *s, const async_piece *piece, const tess_ckpt_tensor *tensor, uint64_t begin,
                       uint64_t end)
{
    uint64_t data_end = end < piece->bytes ? end : piece->bytes;
    if (begin < data_end)
        copy_elements(s, piece, tensor, begin, data_end);
    if (end > data_end)
        memset(s->stage + piece->offset + data_end, 0, end - data_end);
}

static int piece_at(const tess_saver *s, uint64_t offset)
{
    int low = 0, high = s->n_pieces - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (s->pieces[middle].offset <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Copies one thread's range of the stage. */
static void copy_range(void *context, int64_t begin, int64_t end, TESS_UNUSED int worker)
{
    const copy *c = context;
    tess_saver *s = c->saver;
    for (int i = piece_at(s, (uint64_t)begin); i < s->n_pieces && s->pieces[i].offset < (uint64_t)end; i++) {
        const async_piece *p = &s->pieces[i];
        uint64_t from = (uint64_t)begin > p->offset ? (uint64_t)begin - p->offset : 0;
        uint64_t to = (uint64_t)end - p->offset, whole = tess_round_up(p->bytes, BLOCK);
        if (from < whole)
            copy_piece(s, p, &c->tensors[i], from, to < whole ? to : whole);
    }
}

void async_stage_copy(tess_saver *s, const tess_ckpt_tensor *tensors)
{
    copy c = {.saver = s, .tensors = tensors};
    if (s->data_bytes > 0)
        tess_threads_run(s->threads, copy_range, &c, (int64_t)s->data_bytes, BLOCK);
}
