/* Names the checks, and formats their readings as text. */
#include <stdio.h>

#include "base/report/form.h"
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

/* The sentence of each check: a text with cells (base/report/form.h). */
static const char *const sentences[TESS_HEALTH_CHECK_COUNT] = {
    [TESS_HEALTH_MEMORY] = "{value:.1f}% of the machine's memory is in use (limit {limit:g}%)",
    [TESS_HEALTH_GROUP] = "{value:.1f}% of the control group's memory is in use (limit {limit:g}%)",
    [TESS_HEALTH_FILES] = "{process} has {value:.0f} open files (limit {limit:.0f})",
    [TESS_HEALTH_DISK] = "{value:B} are free where checkpoints go (limit {limit:B})",
    [TESS_HEALTH_INODES] = "{value:.0f} files can still be made where checkpoints go (limit {limit:.0f})",
    [TESS_HEALTH_HEARTBEAT] = "rank {rank} gave no sign of life for {value:.3g} s (limit {limit:g} s)",
    [TESS_HEALTH_STEPS] = "no step was finished for {value:.3g} s (limit {limit:g} s)",
    [TESS_HEALTH_LOAD] = "{value:.1f} processes want each core (limit {limit:g})",
    [TESS_HEALTH_GPU_HEAT] = "GPU {who} is at {value:.0f} C (limit {limit:g} C)",
    [TESS_HEALTH_GPU_MEMORY] = "{value:.1f}% of the memory of GPU {who} is in use (limit {limit:g}%)",
    [TESS_HEALTH_GPU_ERRORS] = "GPU {who} has had {value:.0f} uncorrected errors of its memory (limit {limit:.0f})",
    [TESS_HEALTH_NOT_FINITE] = "[{value:!}the loss or gradient norm of step {who} is NaN or infinite"
                               "|loss and gradient norm of step {who} are finite]",
    [TESS_HEALTH_LOSS] = "the loss of step {who} is {value:.2+} standard deviations from the mean of the newest "
                         "{window} (limit {limit:g})",
    [TESS_HEALTH_GRAD_NORM] = "the gradient norm of step {who} is {value:.2+} standard deviations from the mean of the "
                              "newest {window} (limit {limit:g})",
    [TESS_HEALTH_SPEED] = "step {who} computed {value:.0f} tokens/s (limit {limit:.0f})",
};

const char *tess_health_describe(tess_health_check check, const tess_health_reading *reading, char *text, size_t size)
{
    char process[64];
    tess_buffer out = {.data = text, .capacity = size};
    json_auto_t *members =
        json_pack("{s:o, s:o, s:i, s:i, s:s, s:i}", "value", tess_form_number(reading->value, false), "limit",
                  tess_form_number(reading->limit, false), "who", reading->who, "rank", reading->rank, "process",
                  describe_process(reading, process, sizeof(process)), "window", TESS_SPIKE_WINDOW);
    text[0] = '\0';
    if (tess_form_fill(&out, sentences[check], members) != TESS_OK)
        tess_error_clear(); /* the text is cut */
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
