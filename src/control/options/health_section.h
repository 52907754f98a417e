/* Options of the checks of the host, and of alerts. */
#ifndef TESS_CONTROL_OPTIONS_HEALTH_SECTION_H
#define TESS_CONTROL_OPTIONS_HEALTH_SECTION_H

#include "base/core/options.h"

/* clang-format off */
#define TESS_HEALTH_OPTIONS(OPTION)                                                                                    \
    OPTION(BOOL, health, enable, NOTHING, "true", "watch memory, disk, open files and ranks while the job runs")       \
    OPTION(FLOAT, health, interval_s, NOTHING, "10", 0.01, 86400, "seconds between two checks")                        \
    OPTION(                                                                                                            \
        FLOAT, health, memory_percent, NOTHING, "90", 0, 100,                                                          \
        "share of the machine's memory, or the control group's, from which the host counts as degraded; 0: never")     \
    OPTION(INT, health, fds, NOTHING, "10000", 0, 1e9,                                                                 \
           "number of open files of a rank that counts as too many, as does 90% of its limit; 0: only its limit "      \
           "counts")                                                                                                   \
    OPTION(                                                                                                            \
        BYTES, health, disk_bytes, NOTHING, "0", 0, 1e18,                                                              \
        "bytes that must be free where checkpoints go, such as 10GiB, if this is more than two of the newest take")    \
    OPTION(INT, health, inodes, NOTHING, "1000", 0, 1e12,                                                              \
           "number of files that must still fit where checkpoints go; 0: not checked")                                 \
    OPTION(FLOAT, health, heartbeat_s, NOTHING, "-1", -1, 1e9,                                                         \
           "seconds without a sign of a rank; three times that in evaluation and checkpoints; -1: half of "            \
           "comm.timeout_s; 0: not checked")                                                                           \
    OPTION(FLOAT, health, stall_s, NOTHING, "-1", -1, 1e9,                                                             \
           "seconds without a finished step; -1: 1800 more than validation.timeout_s, or comm.timeout_s if that is "   \
           "longer; 0: not checked")                                                                                   \
    OPTION(FLOAT, health, load, NOTHING, "0", 0, 1e6,                                                                  \
           "number of processes for each core that want to run; 0: not checked")                                       \
    OPTION(FLOAT, health, gpu_celsius, NOTHING, "85", 0, 1000,                                                         \
           "temperature of the hottest GPU, in degrees Celsius; 0: not checked")                                       \
    OPTION(FLOAT, health, gpu_memory_percent, NOTHING, "95", 0, 100,                                                   \
           "percentage of memory in use on the fullest GPU; 0: not checked")                                           \
    OPTION(INT, health, gpu_errors, NOTHING, "1", 0, 1e12,                                                             \
           "number of uncorrected errors of a GPU's memory; 0: not checked")                                           \
    OPTION(INT, health, max_failures, NOTHING, "3", 1, 1e9,                                                            \
           "number of failed checks in a row from which a degraded host counts as unhealthy")                          \
    OPTION(PATHS, health, alert_command, NOTHING,                                                                      \
           "words of a program that gets each alert, as a line of JSON (and TESSERA_ALERT_TEXT, ...); empty: none")    \
    OPTION(FLOAT, health, alert_timeout_s, NOTHING, "10", 0.1, 3600, "seconds after which alert_command is killed")
/* clang-format on */

typedef struct tess_health_section {
    TESS_HEALTH_OPTIONS(TESS_OPTION_FIELD)
} tess_health_section;

extern const tess_option_section tess_section_health;

#endif
