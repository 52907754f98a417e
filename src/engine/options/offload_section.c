#include "engine/options/offload_section.h"

#include "base/core/option_rows.h"

static const tess_option offload[] = {
    PATH(offload, folder, NOTHING, "",
         "folder on a disk for what is offloaded; its files have no names; empty, with job.shards=device: the host's "
         "memory"),
    BOOL(offload, params, LAYOUT, "false", "master weights lie on disk: 4 bytes a parameter"),
    BOOL(offload, grads, LAYOUT, "false", "sums of gradients lie on disk: 4 bytes a parameter, or more"),
    BOOL(offload, optimizer, LAYOUT, "false", "moments of the optimizer lie on disk: 8 bytes a parameter with adamw"),
    BOOL(offload, activations, CALLS, "false",
         "activations that wait for backward lie on disk, three layers of them in memory; needs job.device=cpu"),
    BYTES(offload, resident, NOTHING, "0", 0, 1LL << 50,
          "bytes of offloaded state that a rank keeps in memory at a time, such as 2GiB; 0: enough for the largest "
          "unit and its neighbours"),
};
const tess_option_section tess_section_offload = SECTION("offload", "state on disk", offload);
