#include "control/supervise/kept.h"

#include <stdio.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "ckpt/store/store.h"

void tess_kept_describe(const tess_config *config, int64_t steps, char *text, size_t size)
{
    char folder[4096], lost[64] = "";
    int64_t newest = 0;
    bool known = config->checkpoint.enable &&
                 tess_os_join(folder, sizeof(folder), config->job.dump_folder, config->checkpoint.folder) == TESS_OK &&
                 tess_ckpt_latest(folder, NULL, &newest) == TESS_OK;
    tess_error_clear();
    if (steps > newest)
        snprintf(lost, sizeof(lost), ", %lld step%s lost", (long long)(steps - newest), steps - newest > 1 ? "s" : "");
    if (known)
        tess_text_add(text, size, strlen(text), "; newest checkpoint: step %lld%s", (long long)newest, lost);
    else
        tess_text_add(text, size, strlen(text), "; there is no checkpoint%s", lost);
}
