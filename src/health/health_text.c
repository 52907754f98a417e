/* Names the checks, and formats their readings as text. */
#include <stdio.h>

#include "base/text/text.h"
#include "health/health_rules.h"

const char *tess_health_check_name(tess_health_check check)
{
    static const char *const names[] = {
#define X(name, text, side, limit) text,
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
    case TESS_HEALTH_NOT_FINITE:
        snprintf(text, size,
                 value > 0 ? "the loss or gradient norm of step %d is NaN or infinite"
                           : "loss and gradient norm of step %d are finite",
                 reading->who);
        break;
    case TESS_HEALTH_LOSS:
    case TESS_HEALTH_GRAD_NORM:
        snprintf(text, size, "the %s of step %d is %+.2f standard deviations from the mean of the newest %d (limit %g)",
                 check == TESS_HEALTH_LOSS ? "loss" : "gradient norm", reading->who, value, TESS_SPIKE_WINDOW, limit);
        break;
    case TESS_HEALTH_SPEED:
        snprintf(text, size, "step %d computed %.0f tokens/s (limit %.0f)", reading->who, value, limit);
        break;
    default:
        snprintf(text, size, "?");
    }
    return text;
}

const char *tess_health_report(const tess_health *health, const tess_health_change *change, char *text, size_t size)
{
    char one[TESS_HEALTH_TEXT_BYTES];
    const char *before = ": ";
    bool recovered = health->state == TESS_HEALTH_HEALTHY;
    size_t at = tess_text_add(text, size, 0, "%s%s", tess_health_state_name(health->state), recovered ? " again" : "");
    if (health->state == TESS_HEALTH_UNHEALTHY && change->was != health->state)
        at = tess_text_add(text, size, at, " (%lld looks in a row)", (long long)health->failures);
    for (int i = 0; i < TESS_HEALTH_CHECK_COUNT; i++) {
        if (!health->failing[i] && !change->ended[i])
            continue;
        tess_health_describe((tess_health_check)i, &health->last[i], one, sizeof(one));
        at = tess_text_add(text, size, at, "%s%s%s", before, change->ended[i] && !recovered ? "no longer: " : "", one);
        before = "; ";
    }
    return text;
}
