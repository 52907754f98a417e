#include "control/launch/output/run_output.h"

#include <stdio.h>

#include "base/os/os.h"

bool tess_run_output_is_asked(const tess_config *config)
{
    return config->job.log_dir[0] != '\0' || config->job.log_redirects[0] != '\0' || config->job.log_tee[0] != '\0';
}

tess_status tess_run_output_plan(const tess_config *config, bool joins, tess_run_output *output)
{
    const bool is_asked = tess_run_output_is_asked(config);
    TESS_CHECK(!joins || !is_asked, TESS_E_INVALID,
               "job.log_dir: torchrun has started the ranks of this job and has their output: give it --log-dir and "
               "--tee, or start the ranks with tessera train -n");
    if (config->job.log_dir[0] != '\0')
        snprintf(output->folder, sizeof(output->folder), "%s", config->job.log_dir);
    else
        TESS_TRY(tess_os_join(output->folder, sizeof(output->folder), config->job.dump_folder, "logs"));
    output->plan = (tess_output_plan){.folder = output->folder,
                                      .redirects = config->job.log_redirects,
                                      .tee = config->job.log_tee,
                                      .filter = config->job.log_ranks,
                                      .is_default = !is_asked,
                                      .max_bytes = config->job.log_max_size,
                                      .n_kept = (int)config->job.log_kept};
    return tess_output_plan_check(&output->plan);
}
