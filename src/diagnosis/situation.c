/* What became of a rank. */
#include <signal.h>

#include "diagnosis/diagnosis_impl.h"

bool diagnosis_is_death(tess_situation situation)
{
    return situation == TESS_RANK_CRASHED || situation == TESS_RANK_OOM_KILLED || situation == TESS_RANK_KILLED ||
           situation == TESS_RANK_EXITED || situation == TESS_RANK_HOST_LOST;
}

static bool is_kill(int signal)
{
    return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP;
}

tess_situation diagnosis_situation(const tess_rank_history *rank)
{
    if (rank->asked && (diagnosis_is_death(rank->situation) || rank->situation == TESS_RANK_LEFT))
        return TESS_RANK_UNKNOWN;
    if (rank->situation != TESS_RANK_WELL && rank->situation != TESS_RANK_UNKNOWN)
        return rank->situation;
    if (!rank->ended || rank->asked)
        return rank->situation;
    if (rank->signal != 0)
        return is_kill(rank->signal) ? TESS_RANK_KILLED : TESS_RANK_CRASHED;
    return rank->exit_code != 0 ? TESS_RANK_EXITED : TESS_RANK_LEFT;
}
