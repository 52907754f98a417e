/* Names the checks, and formats their readings as text. */
#include <stdio.h>

#include "base/text/text.h"
#include "control/health/health.h"

const char *tess_health_check_name(tess_health_check check)
{
    static const char *const names[] = {
#define X(name, text, side) text,
        TESS_HEALTH_CHECKS(X)
#undef X
    };
    return (unsigned)check < TESS_HEALTH_CHECK_COUNT ? names[check] : "?";
}

const char *tess_health_state_name(tess_health_state state)
{
    static const char *const names[] = {"unknown", "healthy", "degraded", "unhealthy"};
    return (unsigned)state <= TESS_HEALTH_UNHEALTHY ? names[state] : "?";
}

/* Formats "rank 3 (process 4711)" or "process 4711". */
static const char *describe_process(const tess_health_reading *reading, char *text, size_t size)
{
    if (reading->rank >= 0)
        snprintf(text, size, "rank %d (process %d)", reading->rank, reading->who);
    else
        snprintf(text, size, "process %d", reading->who);
    return text;
}

const char *tess_health_describe(tess_health_check check, const tess_health_reading *reading, char *text, size_t size)
{
    char a[64], b[64];
    double value = reading->value, limit = reading->limit;
    switch (check) {
    case TESS_HEALTH_MEMORY:
        snprintf(text, size, "%.1f%% of the machine's memory is in use (limit %g%%)", value, limit);
        break;
    case TESS_HEALTH_GROUP:
        snprintf(text, size, "%.1f%% of the control group's memory is in use (limit %g%%)", value, limit);
        break;
    case TESS_HEALTH_FILES:
        snprintf(text, size, "%s has %.0f open files (limit %.0f)", describe_process(reading, a, sizeof(a)), value,
                 limit);
        break;
    case TESS_HEALTH_DISK:
        snprintf(text, size, "%s are free where checkpoints go (limit %s)", tess_format_bytes(value, a, sizeof(a)),
                 tess_format_bytes(limit, b, sizeof(b)));
        break;
    case TESS_HEALTH_INODES:
        snprintf(text, size, "%.0f files can still be made where checkpoints go (limit %.0f)", value, limit);
        break;
    case TESS_HEALTH_HEARTBEAT:
        snprintf(text, size, "rank %d gave no sign of life for %.3g s (limit %g s)", reading->rank, value, limit);
        break;
    case TESS_HEALTH_STEPS:
        snprintf(text, size, "no step was finished for %.3g s (limit %g s)", value, limit);
        break;
    case TESS_HEALTH_LOAD:
        snprintf(text, size, "%.1f processes want each core (limit %g)", value, limit);
        break;
    case TESS_HEALTH_GPU_HEAT:
        snprintf(text, size, "GPU %d is at %.0f C (limit %g C)", reading->who, value, limit);
        break;
    case TESS_HEALTH_GPU_MEMORY:
        snprintf(text, size, "%.1f%% of the memory of GPU %d is in use (limit %g%%)", value, reading->who, limit);
        break;
    case TESS_HEALTH_GPU_ERRORS:
        snprintf(text, size, "GPU %d has had %.0f uncorrected errors of its memory (limit %.0f)", reading->who, value,
                 limit);
        break;
    default:
        snprintf(text, size, "?");
    }
    return text;
}
