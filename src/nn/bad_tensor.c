#include "nn/bad_tensor.h"

#include <math.h>
#include <stdio.h>

#include "device/finite.h"

static void see(void *self, int unit, const char *what, void *data, tess_dtype dtype, int64_t first, int64_t n_rows,
                int64_t row)
{
    tess_bad_tensor *bad = self;
    for (int64_t i = 0; i < n_rows * row && bad->text[0] == '\0'; i++) {
        const double read = tess_value_at(data, dtype, i), value = isnan(read) ? NAN : read; /* NaN has no sign */
        if (!isfinite(value))
            snprintf(bad->text, sizeof(bad->text), "%g first comes in %s of '%s' (row %lld, column %lld)", value, what,
                     tess_model_unit_name(bad->model, unit), (long long)(first + i / row), (long long)(i % row));
    }
}

tess_watch tess_bad_tensor_watch(tess_bad_tensor *bad)
{
    bad->text[0] = '\0';
    return (tess_watch){bad, see};
}
