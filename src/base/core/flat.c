#include "base/core/flat.h"

int64_t tess_flat_box(int n_dims, const int64_t *dim, int64_t begin, int64_t count, tess_box *box)
{
    int64_t step[TESS_MAX_DIMS], left = begin, taken = 1;
    *box = (tess_box){0};
    for (int d = n_dims; d-- > 0;)
        step[d] = d == n_dims - 1 ? 1 : step[d + 1] * dim[d + 1];
    /* The outermost dimension along which the box can take whole steps. */
    int along = 0;
    while (along < n_dims - 1 && (begin % step[along] != 0 || count < step[along]))
        along++;
    for (int d = 0; d < n_dims; d++) {
        int64_t at = left / step[d];
        left %= step[d];
        box->begin[d] = d <= along ? at : 0;
        box->size[d] = d < along ? 1 : dim[d];
        if (d == along) {
            int64_t room = dim[d] - at, steps = count / step[d];
            box->size[d] = steps < room ? steps : room;
            taken = box->size[d] * step[d];
        }
    }
    return taken;
}

int64_t tess_flat_slice(int n_dims, const tess_box *whole, int64_t first, int64_t count, tess_box *slice)
{
    int64_t taken = tess_flat_box(n_dims, whole->size, first, count, slice);
    for (int d = 0; d < n_dims; d++)
        slice->begin[d] += whole->begin[d];
    return taken;
}

bool tess_flat_is_run(int n_dims, const int64_t *outer, const int64_t *inner)
{
    int d = n_dims - 1;
    while (d >= 0 && inner[d] == outer[d])
        d--;
    for (d--; d >= 0; d--)
        if (inner[d] != 1)
            return false;
    return true;
}

int64_t tess_flat_run(int n_dims, const int64_t *outer, const int64_t *inner)
{
    int64_t run = 1;
    for (int d = n_dims - 1; d >= 0; d--) {
        run *= inner[d];
        if (inner[d] != outer[d])
            break;
    }
    return run;
}

int64_t tess_flat_offset(int n_dims, const tess_box *whole, const tess_box *part)
{
    int64_t at = 0;
    for (int d = 0; d < n_dims; d++)
        at = at * whole->size[d] + part->begin[d] - whole->begin[d];
    return at;
}

int64_t tess_flat_run_at(int n_dims, const int64_t *dim, const tess_box *part, int64_t first, int64_t most, int64_t *at)
{
    int64_t run = tess_flat_run(n_dims, dim, part->size), left = run - first % run;
    tess_box element;
    tess_flat_slice(n_dims, part, first, 1, &element);
    *at = 0;
    for (int d = 0; d < n_dims; d++)
        *at = *at * dim[d] + element.begin[d];
    return left < most ? left : most;
}

void tess_flat_copy(int n_dims, size_t element_bytes, const tess_box *whole, const void *data, const tess_box *part,
                    int64_t first, int64_t count, void *to)
{
    for (int64_t done = 0, taken; done < count; done += taken) {
        tess_box slice;
        taken = tess_flat_slice(n_dims, part, first + done, count - done, &slice);
        tess_box_copy(n_dims, element_bytes, &slice, whole, data, &slice, (char *)to + (size_t)done * element_bytes);
    }
}
