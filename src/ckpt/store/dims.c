#include "ckpt/store/dims.h"

json_t *tess_dims_to_json(int n_dims, const int64_t *dim)
{
    json_t *list = json_array();
    for (int d = 0; d < n_dims; d++)
        json_array_append_new(list, json_integer((json_int_t)dim[d]));
    return list;
}

tess_status tess_dims_from_json(const json_t *object, const char *key, const char *of, int64_t dim[TESS_MAX_DIMS],
                                int *n_dims)
{
    size_t d;
    json_t *item;
    const json_t *list = json_object_get(object, key);
    TESS_CHECK(json_is_array(list) && json_array_size(list) <= TESS_MAX_DIMS, TESS_E_FORMAT,
               "%s: '%s' is not a list of at most %d numbers", of, key, TESS_MAX_DIMS);
    *n_dims = (int)json_array_size(list);
    json_array_foreach (list, d, item) {
        TESS_CHECK(json_is_integer(item), TESS_E_FORMAT, "%s: '%s' holds something that is no integer", of, key);
        dim[d] = json_integer_value(item);
    }
    return TESS_OK;
}
