/* Describes as text which rank holds which part, and checks whether copies are equal. */
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/text/text.h"
#include "dtensor/dtensor_impl.h"

enum { BAR = 20 }; /* number of characters for a whole dimension */

/* Formats coordinates as "(1, 0)". */
static const char *format_point(const int *at, int n_axes, char *text, size_t size)
{
    size_t end = tess_text_add(text, size, 0, "(");
    for (int a = 0; a < n_axes; a++)
        end = tess_text_add(text, size, end, "%s%d", a > 0 ? ", " : "", at[a]);
    tess_text_add(text, size, end, ")");
    return text;
}

/* Draws a box as a bar. Each character stands for an equal part of the dimension: '#' if its middle is in the box. */
static void draw_bar(int64_t begin, int64_t size, int64_t whole, char bar[BAR + 1])
{
    for (int i = 0; i < BAR; i++) {
        double middle = ((double)i + 0.5) * (double)whole / BAR;
        bar[i] = middle >= (double)begin && middle < (double)(begin + size) ? '#' : '.';
    }
    bar[BAR] = '\0';
}

int tess_dtensor_format(const tess_dtensor *tensor, char *text, size_t size)
{
    const tess_spec *spec = &tensor->spec;
    const tess_shape *shape = &spec->shape;
    mesh_point point = mesh_point_of(tensor->mesh);
    int n_ranks = tess_team_size(tess_mesh_all(tensor->mesh)), dim = -1;
    for (int a = spec->n_axes - 1; a >= 0; a--)
        dim = spec->place[a].kind == TESS_SHARD ? spec->place[a].dim : dim;

    TESS_AUTO(tess_buffer_free) tess_buffer lines = {.mem = tensor->mem};
    char dims[128], places[256], mesh[512], bytes[32];
    tess_mesh_format(tensor->mesh, mesh, sizeof(mesh));
    mesh[strcspn(mesh, "\n")] = '\0';
    tess_box first = tess_spec_box(spec, point.sizes, (const int[TESS_MESH_MAX_AXES]){0});
    double most = (double)tess_box_count(shape->n_dims, &first) * (double)tess_dtype_size(tensor->dtype);
    tess_status st =
        tess_buffer_printf(&lines, "%s %s, %s over %s, %s a rank", tess_shape_format(shape, dims, sizeof(dims)),
                           tess_dtype_name(tensor->dtype), tess_spec_format(spec, places, sizeof(places)), mesh,
                           tess_format_bytes(most, bytes, sizeof(bytes)));
    for (int rank = 0; rank < n_ranks && st == TESS_OK; rank++) {
        char at[64], box[256], bar[BAR + 1] = "";
        tess_mesh_coordinates(tensor->mesh, rank, point.at);
        tess_box part = tess_spec_box(spec, point.sizes, point.at);
        if (dim >= 0)
            draw_bar(part.begin[dim], part.size[dim], shape->dim[dim], bar);
        st = tess_buffer_printf(&lines, "\n  rank %d %s  %s%s%s", rank,
                                format_point(point.at, spec->n_axes, at, sizeof(at)),
                                tess_box_format(shape->n_dims, &part, box, sizeof(box)), dim >= 0 ? "  " : "", bar);
    }
    int length = snprintf(text, size, "%s", st == TESS_OK ? lines.data : "");
    return length;
}

tess_status tess_dtensor_check(const tess_dtensor *tensor)
{
    TESS_CHECK(tensor != NULL, TESS_E_INVALID, "tess_dtensor_check: a NULL argument");
    const tess_spec *spec = &tensor->spec;
    tess_team *all = tess_mesh_all(tensor->mesh);
    int n_ranks = tess_team_size(all);
    uint64_t mine = tess_hash_bytes(tensor->data, dtensor_bytes(tensor), 0);
    void *memory;
    TESS_TRY(tess_mem_alloc_array(tensor->mem, TESS_POOL_MISC, (size_t)n_ranks, sizeof(mine), "hashes", &memory));
    uint64_t *hashes = memory;
    tess_status st = tess_all_gather(all, &mine, hashes, sizeof(mine), TESS_U8, NULL);
    for (int rank = 0; rank < n_ranks && st == TESS_OK; rank++) {
        int at[TESS_MESH_MAX_AXES], first_at[TESS_MESH_MAX_AXES];
        tess_mesh_coordinates(tensor->mesh, rank, at);
        for (int a = 0; a < spec->n_axes; a++) /* the first rank that holds the same elements */
            first_at[a] = spec->place[a].kind == TESS_REPLICATE ? 0 : at[a];
        int first = tess_mesh_rank(tensor->mesh, first_at);
        char here[64], there[64], box[256];
        if (hashes[rank] != hashes[first]) {
            tess_box part = tess_spec_box(spec, mesh_point_of(tensor->mesh).sizes, at);
            st = TESS_FAIL(TESS_E_MISMATCH, "ranks %d %s and %d %s of the mesh hold other bits of elements %s", first,
                           format_point(first_at, spec->n_axes, here, sizeof(here)), rank,
                           format_point(at, spec->n_axes, there, sizeof(there)),
                           tess_box_format(spec->shape.n_dims, &part, box, sizeof(box)));
        }
    }
    tess_mem_free(tensor->mem, hashes);
    return st;
}
