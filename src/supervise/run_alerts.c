#include "supervise/run_alerts.h"

#include <unistd.h>

#include "base/os/os.h"

tess_status tess_run_alerts_open(const tess_config *config, tess_run_alerts *alerts)
{
    const tess_text_list *words = &config->health.alert_command;
    *alerts = (tess_run_alerts){.channel = {.file = alerts->file,
                                            .command = words->n > 0 ? alerts->command : NULL,
                                            .command_timeout_s = config->health.alert_timeout_s,
                                            .job = config->job.dump_folder,
                                            .pid = (int)getpid()}};
    for (int i = 0; i < words->n; i++)
        alerts->command[i] = (char *)words->item[i];
    return tess_os_join(alerts->file, sizeof(alerts->file), config->job.dump_folder, "alerts.jsonl");
}
