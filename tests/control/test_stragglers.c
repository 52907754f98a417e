/* Ranks report their steps, and the launcher names the one whose steps take longer. The durations are invented, so that
 * a busy machine changes nothing. */
#include <unistd.h>

#include "base/os/os.h"
#include "tessera/clock.h"
#include "control/launch/launcher.h"
#include "support/test.h"
#include "tessera/runtime.h"
#include "trace/notice.h"

enum { RANKS = 4, STEPS = 80, MOST_STEPS = 100 * STEPS, FORWARD = 3, BACKWARD = 4, WAIT = 7 };

typedef struct run {
    double slow[TESS_PHASE_COUNT]; /* slowness of rank 2: 0.5 is half as long again */
    volatile int64_t step;         /* step of rank 2 */
    int64_t heard_at;              /* its step when the first line came */
    bool is_awaited;               /* the ranks go on until a line has come */
    volatile int n_lines;
    char line[512];
    tess_notices notices;
} run;

static int take_part(void *context)
{
    run *r = context;
    tess_runtime *rt;
    tess_runtime_options options = {.n_threads = 1};
    EXPECT_OK(tess_runtime_create(&options, &rt));
    bool is_slow = tess_runtime_rank(rt) == 2;
    bool is_told = false;
    for (int64_t step = 1; !is_told && step <= (r->is_awaited ? MOST_STEPS : STEPS); step++) {
        tess_progress progress = {.n_steps = step, .phase_s = {0.01, 0.02, 0.05, 0.3, 0.6, 0.05, 0.06, 0.1}};
        for (int phase = 0; phase < TESS_PHASE_COUNT; phase++)
            progress.phase_s[phase] *= 1 + (is_slow ? r->slow[phase] : 0) + 0.001 * (double)(step * 7 % 5);
        for (int phase = 0; phase < TESS_PHASE_COUNT && !is_slow; phase++) /* they wait for it */
            progress.phase_s[WAIT] += r->slow[phase] * progress.phase_s[phase];
        tess_runtime_progress(rt, &progress);
        if (is_slow)
            r->step = step;
        usleep(40000);
        is_told = r->is_awaited && r->n_lines > 0;
    }
    tess_runtime_destroy(&rt);
    return 0;
}

static void hear(void *self, const char *line)
{
    run *r = self;
    if (r->n_lines++ == 0) {
        snprintf(r->line, sizeof(r->line), "%s", line);
        r->heard_at = r->step;
    }
}

static run *launch(int phase, double slow, bool is_awaited)
{
    void *memory;
    tess_launch_result result;
    EXPECT_OK(tess_os_share("run", sizeof(run), &memory));
    run *r = memory;
    *r = (run){.is_awaited = is_awaited};
    r->slow[phase] = slow;
    tess_launch_options options = {
        .grace_s = 600, .soft_timeout_s = 600, .reporter = {hear, r}, .notices = &r->notices, .self = r};
    EXPECT_OK(tess_launch_function_with(RANKS, take_part, r, &options, 600, &result));
    EXPECT_INT(result.exit_code, 0);
    return r;
}

static void a_slow_rank_is_named_with_its_phase(void)
{
    run *r = launch(BACKWARD, 0.12, true);
    EXPECT_INT(r->n_lines, 1);
    EXPECT(r->heard_at >= 20);
    tess_notice notices[TESS_NOTICES];
    EXPECT_INT(tess_notices_read(&r->notices, notices), 1);
    EXPECT_INT(notices[0].kind, TESS_NOTICE_SLOW);
    EXPECT_INT(notices[0].rank, 2);
    EXPECT(notices[0].step >= 20);
    EXPECT_TEXT(notices[0].text, r->line);
    double ms = 0;
    if (strstr(r->line, "does not get its core") != NULL) { /* true as well, on a machine that is that busy */
        printf("%s\n", r->line);
        EXPECT_CONTAINS(r->line, "rank 2 is slow because ");
        EXPECT_CONTAINS(r->line, " (backward 12% longer, ");
        return;
    }
    EXPECT_INT(sscanf(r->line, "rank 2 is 12%% slow in backward: %lf ms", &ms), 1);
    EXPECT(ms > 71.5 && ms < 72.5); /* 12% of 600 */
    EXPECT_CONTAINS(r->line, " ms longer than the others in each step, for the last 20 (step ");
    tess_os_unmap_shared(r, sizeof(*r));
}

static void ranks_alike_are_left_in_peace(void)
{
    run *r = launch(FORWARD, 0.01, false);
    if (r->n_lines != 0)
        test_fail(__FILE__, __LINE__, "heard: %s", r->line);
    tess_os_unmap_shared(r, sizeof(*r));
}

static const test_case cases[] = {
    CASE(a_slow_rank_is_named_with_its_phase),
    CASE(ranks_alike_are_left_in_peace),
};

TEST_MAIN(cases)
