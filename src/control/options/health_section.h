/* Options of the checks of the host, and of alerts. */
#ifndef TESS_CONTROL_OPTIONS_HEALTH_SECTION_H
#define TESS_CONTROL_OPTIONS_HEALTH_SECTION_H

#include "base/core/options.h"

typedef struct tess_health_section {
    bool enable;
    double interval_s, memory_percent, heartbeat_s, stall_s, load, gpu_celsius, gpu_memory_percent;
    int64_t fds, disk_bytes, inodes, gpu_errors, max_failures;
    tess_text_list alert_command;
    double alert_timeout_s;
} tess_health_section;

extern const tess_option_section tess_section_health;

#endif
