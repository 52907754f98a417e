/* Writes parameters that no optimizer updates. */
#ifndef TESS_PARALLEL_FSDP_FSDP_VALUES_H
#define TESS_PARALLEL_FSDP_FSDP_VALUES_H

#include "tessera/fsdp.h"

/* Writes this rank's rows of a parameter to its master weights. Between tess_fsdp_update_begin and
 * tess_fsdp_update_end it also writes the gathered copies that stay valid. Not collective.
 * index   the number of the parameter, which is not narrow (tess_param_desc.narrow)
 * values  the whole parameter (host memory), of which it reads the rows of tess_shard.box */
tess_status tess_fsdp_write_values(tess_fsdp *fsdp, int index, const float *values);

#endif
