/* Health of a training loop in C: figures of steps and of a GPU are judged by the rules of `tessera train`. The loop
 * here is a stand-in, whose loss spikes and then becomes NaN. It prints what embed_health.py prints. */
#include <math.h>
#include <stdio.h>

#include <tessera/health.h>

enum { STEPS = 200, STEPS_PER_ROUND = 5 };

/* A stand-in for a step of your own. */
static tess_health_step train_step(int step)
{
    double loss = 3 / (1 + 0.01 * step) + 0.01 * sin(step);
    return (tess_health_step){.step = step,
                              .loss = step == 180   ? (double)NAN
                                      : step == 150 ? loss * 4
                                                    : loss,
                              .grad_norm = 1 + 0.05 * cos(step)};
}

int main(void)
{
    tess_health_limits limits;
    tess_health_monitor *monitor;
    tess_health_limits_default(&limits);
    for (int check = 0; check < TESS_HEALTH_GPU_MEMORY; check++)
        limits.at[check] = 0; /* this machine's own memory, disk and load are not what the example shows */
    if (tess_health_monitor_create(&limits, &monitor) != TESS_OK)
        return fprintf(stderr, "embed_health: %s\n", tess_error_message()), 1;
    for (int step = 1; step <= STEPS; step++) {
        const tess_health_step done = train_step(step);
        const tess_health_reading gpu = {.known = true, .value = step > 190 ? 97 : 60, .rank = -1};
        tess_health_monitor_step(monitor, &done);
        if (step % STEPS_PER_ROUND != 0)
            continue;
        if (tess_health_monitor_read(monitor, TESS_HEALTH_GPU_MEMORY, &gpu) != TESS_OK)
            return fprintf(stderr, "embed_health: %s\n", tess_error_message()), 1;
        tess_health_monitor_host(monitor, NULL, NULL, 0);
        const tess_health_alert *alert = tess_health_monitor_round(monitor);
        if (alert == NULL)
            continue;
        printf("step %d [", step);
        for (int i = 0; i < alert->n_findings; i++)
            printf("%s%s", i > 0 ? ", " : "", tess_health_check_name(alert->findings[i].check));
        printf("]: %s\n", alert->text);
    }
    tess_health_monitor_destroy(&monitor);
    return 0;
}
