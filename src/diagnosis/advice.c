/* Returns the advice for each kind of diagnosis. */
#include "diagnosis/diagnosis_impl.h"

static const char *advice_on_death(const tess_rank_history *rank)
{
    switch (diagnosis_situation(rank)) {
    case TESS_RANK_OOM_KILLED:
        return "give the job more memory (cgroup limit, fewer ranks a host) or make its step smaller "
               "(training.local_batch_size, activation_checkpoint.mode=full)";
    case TESS_RANK_CRASHED:
        return "run the program of this rank under a debugger (or look at its core file), at the call site above";
    case TESS_RANK_HOST_LOST:
        return "look at the host: power, network, the scheduler's log; start again from the newest checkpoint";
    case TESS_RANK_EXITED:
        return "look at what this rank printed last: it ended itself without leaving the job";
    default:
        return "find out who sent the signal (scheduler, administrator, a limit); start again from the newest "
               "checkpoint";
    }
}

#define SAME_WAY                                                                                                      \
    "compare the code at both call sites: a branch on the rank, on its data or on an error that was swallowed makes " \
    "this rank take another way"
#define SAME_BATCHES "give all ranks the same number of batches; if they have it, "

static const struct {
    const char *usual, *uneven; /* uneven: advice if batches look uneven; NULL: the usual advice applies */
} advice[TESS_DIAGNOSIS_COUNT] = {
    [TESS_DIAGNOSIS_HEALTHY] = {.usual = ""},
    [TESS_DIAGNOSIS_FINISHED] = {.usual = ""},
    [TESS_DIAGNOSIS_STOPPED] = {.usual = "let it go on with SIGCONT (kill -CONT PID), or find out who stopped it"},
    [TESS_DIAGNOSIS_IO] = {.usual = "look at the file system or device that it waits for (dmesg, nfsstat, iostat)"},
    [TESS_DIAGNOSIS_BUSY] = {.usual = "look at where it is: its data, or work that only this rank does"},
    [TESS_DIAGNOSIS_LEFT] =
        {.usual = "give all ranks the same number of steps: its data may have ended early (uneven batches)"},
    [TESS_DIAGNOSIS_NOT_JOINED] = {.usual = "look at its output: it was started but has not made its runtime "
                                            "(tess_runtime_create)"},
    [TESS_DIAGNOSIS_MISSING] = {.usual = "look at this rank: its output, its stack (gdb -p PID), its host"},
    [TESS_DIAGNOSIS_SKIPPED] = {.usual = SAME_WAY, .uneven = SAME_BATCHES "compare the code at both call sites"},
    [TESS_DIAGNOSIS_EXTRA] = {.usual = SAME_WAY, .uneven = SAME_BATCHES "compare the code at both call sites"},
    [TESS_DIAGNOSIS_ORDER] = {.usual = SAME_WAY, .uneven = SAME_BATCHES "compare the code at both call sites"},
    [TESS_DIAGNOSIS_MESSAGE] = {.usual =
                                    "make both sides agree on number, element type and tag, one receive for each send"},
    [TESS_DIAGNOSIS_DEADLOCK] = {.usual = "use the teams in one order on all ranks",
                                 .uneven = SAME_BATCHES "use the teams in one order on all"},
    [TESS_DIAGNOSIS_NUMBERS] =
        {.usual = "the step and tensor that it names are where to look: learning rate, loss scale, data; "
                  "a replica that differs alone points at hardware"},
    [TESS_DIAGNOSIS_FAILED] = {.usual = "mend what the error says; the other ranks only failed because of it"},
    [TESS_DIAGNOSIS_UNDECIDED] = {.usual = "look at each rank's last operation below"},
};

const char *diagnosis_advice(const diagnosis_search *search)
{
    const tess_diagnosis *diagnosis = search->diagnosis;
    const char *usual = advice[diagnosis->kind].usual, *uneven = advice[diagnosis->kind].uneven;
    if (diagnosis->kind == TESS_DIAGNOSIS_LOST)
        return advice_on_death(&search->history->ranks[diagnosis->ranks[0]]);
    if (search->uneven[0] != '\0' && uneven != NULL)
        return uneven;
    return usual != NULL ? usual
                         : "compare the code at both call sites: the same call with the same arguments on every rank";
}
