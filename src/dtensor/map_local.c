/* Runs a caller's function on each rank's parts of distributed tensors. */
#include <string.h>

#include "comm/agree.h"
#include "dtensor/dtensor_impl.h"

static tess_status check(const tess_dtensor *const *in, const tess_place *const *in_place, int n_in, tess_local_fn fn,
                         const tess_spec *to, tess_dtype dtype, tess_dtensor *const *out)
{
    TESS_CHECK(n_in >= 1 && n_in <= DTENSOR_MAX_OPERANDS, TESS_E_INVALID, "tess_dtensor_map: %d operands; 1 to %d",
               n_in, DTENSOR_MAX_OPERANDS);
    TESS_CHECK(in != NULL && in_place != NULL && fn != NULL && to != NULL && out != NULL, TESS_E_INVALID,
               "tess_dtensor_map: a NULL argument");
    for (int i = 0; i < n_in; i++) {
        TESS_CHECK(in[i] != NULL && in_place[i] != NULL, TESS_E_INVALID, "tess_dtensor_map: operand %d is NULL", i);
        TESS_CHECK(in[i]->mesh == in[0]->mesh, TESS_E_INVALID,
                   "tess_dtensor_map: operands 0 and %d are on different meshes", i);
    }
    TESS_TRY(tess_spec_check(to, in[0]->mesh));
    TESS_CHECK((unsigned)dtype < TESS_DTYPE_COUNT, TESS_E_INVALID, "tess_dtensor_map: %d is no dtype", (int)dtype);
    return TESS_OK;
}

static tess_status redistribute_all(const tess_dtensor *const *in, const tess_place *const *in_place, int n_in,
                                    tess_dtensor **placed)
{
    for (int i = 0; i < n_in; i++) {
        tess_spec spec = {.shape = in[i]->spec.shape, .n_axes = in[i]->spec.n_axes};
        memcpy(spec.place, in_place[i], (size_t)spec.n_axes * sizeof(spec.place[0]));
        TESS_TRY_CTX(tess_dtensor_redistribute(in[i], &spec, NULL, &placed[i]), "tess_dtensor_map: operand %d", i);
    }
    return TESS_OK;
}

tess_status tess_dtensor_map(const tess_dtensor *const *in, const tess_place *const *in_place, int n_in,
                             tess_local_fn fn, void *context, const tess_spec *to, tess_dtype dtype, tess_dtensor **out)
{
    TESS_TRY(check(in, in_place, n_in, fn, to, dtype, out));
    tess_mesh *mesh = in[0]->mesh;
    tess_dtensor *placed[DTENSOR_MAX_OPERANDS] = {NULL}, *result = NULL;
    tess_status status = redistribute_all(in, in_place, n_in, placed);
    if (status == TESS_OK) {
        status = dtensor_new(mesh, to, dtype, &result);
        if (status == TESS_OK)
            status = fn(context, placed, n_in, result);
        status = tess_team_agree(tess_mesh_all(mesh), status);
    }
    for (int i = 0; i < n_in; i++)
        tess_dtensor_destroy(&placed[i]);
    if (status != TESS_OK)
        tess_dtensor_destroy(&result);
    *out = result;
    return status;
}
