/* What to do about it. */
#include "verdict/verdict_impl.h"

static const char *advice_on_death(const tess_rank_history *rank)
{
    switch (verdict_situation(rank)) {
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

const char *verdict_advice(const verdict_search *search)
{
    const tess_verdict *verdict = search->verdict;
    switch (verdict->kind) {
    case TESS_VERDICT_LOST:
        return advice_on_death(&search->history->ranks[verdict->ranks[0]]);
    case TESS_VERDICT_STOPPED:
        return "let it go on with SIGCONT (kill -CONT PID), or find out who stopped it";
    case TESS_VERDICT_IO:
        return "look at the file system or device that it waits for (dmesg, nfsstat, iostat)";
    case TESS_VERDICT_BUSY:
        return "look at where it is: its data, or work that only this rank does";
    case TESS_VERDICT_LEFT:
        return "give all ranks the same number of steps: its data may have ended early (uneven batches)";
    case TESS_VERDICT_NOT_JOINED:
        return "look at its output: it was started but has not made its runtime (tess_runtime_create)";
    case TESS_VERDICT_MISSING:
        return "look at this rank: its output, its stack (gdb -p PID), its host";
    case TESS_VERDICT_SKIPPED:
    case TESS_VERDICT_EXTRA:
    case TESS_VERDICT_ORDER:
        if (search->uneven[0] != '\0')
            return "give all ranks the same number of batches; if they have it, compare the code at both call sites";
        return "compare the code at both call sites: a branch on the rank, on its data or on an error that was "
               "swallowed makes this rank take another way";
    case TESS_VERDICT_MESSAGE:
        return "make both sides agree on number, element type and tag, one receive for each send";
    case TESS_VERDICT_DEADLOCK:
        return search->uneven[0] != '\0'
                   ? "give all ranks the same number of batches; if they have it, use the teams in one order on all"
                   : "use the teams in one order on all ranks";
    case TESS_VERDICT_NUMBERS:
        return "the step and tensor that it names are where to look: learning rate, loss scale, data; "
               "a replica that differs alone points at hardware";
    case TESS_VERDICT_FAILED:
        return "mend what the error says; the other ranks only failed because of it";
    case TESS_VERDICT_HEALTHY:
    case TESS_VERDICT_FINISHED:
        return "";
    case TESS_VERDICT_UNDECIDED:
        return "look at each rank's last operation below";
    default:
        return "compare the code at both call sites: the same call with the same arguments on every rank";
    }
}
