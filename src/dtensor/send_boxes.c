/* An all-to-all of boxes: each rank receives from every other rank the part of its wanted box that the other one
 * has. */
#include "dtensor/dtensor_impl.h"

/* The parts that one rank's box has in common with each rank's other box, packed in the order of ranks. */
typedef struct parcels {
    tess_box *common;
    size_t *count, *offset; /* (size), in elements */
    size_t n;
    char *data;
} parcels;

static void lay_out(parcels *p, int size, int n_dims, const tess_box *mine, const tess_box *others)
{
    for (int r = 0; r < size; r++) {
        bool any = tess_box_meet(n_dims, mine, &others[r], &p->common[r]);
        p->count[r] = any ? (size_t)tess_box_count(n_dims, &p->common[r]) : 0;
        p->offset[r] = p->n;
        p->n += p->count[r];
    }
}

tess_status dtensor_send_boxes(tess_team *team, tess_mem *mem, int n_dims, tess_dtype dtype, const tess_box *had,
                               const void *in, const tess_box *gets, void *out, size_t *bytes)
{
    size_t size = (size_t)tess_team_size(team), element = tess_dtype_size(dtype);
    int me = tess_team_rank(team);
    void *boxes, *numbers = NULL, *data = NULL;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, 2 * size, sizeof(tess_box), "parts of boxes", &boxes));
    tess_status status = tess_mem_alloc_array(mem, TESS_POOL_MISC, 4 * size, sizeof(size_t), "counts", &numbers);
    if (status != TESS_OK)
        goto done;
    parcels send = {.common = boxes, .count = numbers, .offset = (size_t *)numbers + size};
    parcels take = {.common = send.common + size, .count = send.offset + size, .offset = send.offset + 2 * size};
    lay_out(&send, (int)size, n_dims, &had[me], gets);
    lay_out(&take, (int)size, n_dims, &gets[me], had);
    TESS_GOTO(tess_mem_alloc_array(mem, TESS_POOL_MISC, send.n + take.n, element, "packed boxes", &data), done);
    send.data = data;
    take.data = send.data + send.n * element;
    for (size_t r = 0; r < size; r++)
        if (send.count[r] > 0)
            tess_box_copy(n_dims, element, &send.common[r], &had[me], in, &send.common[r],
                          send.data + send.offset[r] * element);
    TESS_GOTO(
        tess_all_to_all_v(team, send.data, send.count, send.offset, take.data, take.count, take.offset, dtype, NULL),
        done);
    for (size_t r = 0; r < size; r++)
        if (take.count[r] > 0)
            tess_box_copy(n_dims, element, &take.common[r], &take.common[r], take.data + take.offset[r] * element,
                          &gets[me], out);
    *bytes = (take.n - take.count[me]) * element;
done:
    tess_mem_free(mem, data);
    tess_mem_free(mem, numbers);
    tess_mem_free(mem, boxes);
    return status;
}
