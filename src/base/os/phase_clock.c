/* Implements tessera/clock.h. */
#include "tessera/clock.h"

#include "base/os/os.h"

void tess_phase_start(tess_phase_clock *clock)
{
    *clock = (tess_phase_clock){.since_ns = tess_os_now_ns(), .phase = TESS_PHASE_OTHER};
}

tess_phase tess_phase_switch(tess_phase_clock *clock, tess_phase next)
{
    uint64_t now = tess_os_now_ns();
    tess_phase last = clock->phase;
    clock->ns[last] += now - clock->since_ns;
    clock->since_ns = now;
    clock->phase = next;
    return last;
}

void tess_phase_credit(tess_phase_clock *clock, tess_phase phase, uint64_t ns)
{
    tess_phase now = tess_phase_switch(clock, clock->phase);
    uint64_t moved = ns < clock->ns[now] ? ns : clock->ns[now];
    clock->ns[now] -= moved;
    clock->ns[phase] += moved;
}

const char *tess_phase_name(tess_phase phase)
{
    switch (phase) {
#define X(name, text) \
    case name:        \
        return text;
        TESS_PHASE_LIST(X)
#undef X
    case TESS_PHASE_COUNT:
        break;
    }
    return "unknown";
}
