#include "engine/options/job_section.h"

#include "base/core/option_rows.h"

static const tess_option job[] = {
    PATH(job, dump_folder, CALLS, "out", "folder for everything that the run writes"),
    TEXT(job, description, NOTHING, "", "a line for people, shown when the run starts"),
    CHOICE(job, device, LAYOUT_AND_BITS, "auto", "auto|cpu|far|cuda",
           "device that computes the model; auto: cpu; cuda: NVIDIA GPUs (docs/gpu.md); far: the CPU behind a queue, "
           "to find errors that a GPU would show"),
    CHOICE(job, shards, LAYOUT, "auto", "auto|host|device",
           "memory that holds weights, gradients and moments; auto: the GPU's, if they fit and all options work there, "
           "else the host's (docs/gpu.md)"),
    BOOL(job, ignore_memory, NOTHING, "false", "start even if the available memory does not seem to suffice"),
};
const tess_option_section tess_section_job = SECTION("job", "the run, its folder and its device", job);
