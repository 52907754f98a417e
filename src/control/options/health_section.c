#include "control/options/health_section.h"

#include "base/core/option_rows.h"

static const tess_option health[] = {
    BOOL(health, enable, NOTHING, "true", "watch memory, disk, open files and ranks while the job runs"),
    FLOAT(health, interval_s, NOTHING, "10", 0.01, 86400, "seconds between two checks"),
    FLOAT(health, memory_percent, NOTHING, "90", 0, 100,
          "share of the machine's memory, or the control group's, from which the host counts as degraded; 0: never"),
    INT(health, fds, NOTHING, "10000", 0, 1e9, "open files of a rank (or 90% of its limit); 0: its limit alone"),
    BYTES(health, disk_bytes, NOTHING, "0", 0, 1e18,
          "bytes to be free where checkpoints go, as 10GiB, if more than two of the newest take"),
    INT(health, inodes, NOTHING, "1000", 0, 1e12, "files that must be possible there; 0: any"),
    FLOAT(health, heartbeat_s, NOTHING, "-1", -1, 1e9,
          "silence of a rank, in seconds; three times that in evaluation and checkpoints; -1: half of comm.timeout_s; "
          "0: forever"),
    FLOAT(health, stall_s, NOTHING, "-1", -1, 1e9,
          "seconds without a finished step; -1: 1800 more than validation.timeout_s, or comm.timeout_s if that is "
          "longer; 0: forever"),
    FLOAT(health, load, NOTHING, "0", 0, 1e6, "processes that want a core, for each core; 0: any"),
    FLOAT(health, gpu_celsius, NOTHING, "85", 0, 1000, "limit for the hottest GPU; 0: none"),
    FLOAT(health, gpu_memory_percent, NOTHING, "95", 0, 100, "limit for the fullest GPU; 0: none"),
    INT(health, gpu_errors, NOTHING, "1", 0, 1e12, "uncorrected errors of a GPU's memory; 0: any"),
    INT(health, max_failures, NOTHING, "3", 1, 1e9, "failed checks in a row that turn degraded into unhealthy"),
    PATHS(health, alert_command, NOTHING,
          "words of a program that gets each alert, as a line of JSON (and TESSERA_ALERT_TEXT, ...); empty: none"),
    FLOAT(health, alert_timeout_s, NOTHING, "10", 0.1, 3600, "seconds until it is killed"),
};
const tess_option_section tess_section_health = SECTION("health", "the state of the host, and alerts", health);
