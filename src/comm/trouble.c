/* Finds out what is wrong while a rank waits: a peer has ended, has given up, or does not come in time. */
#include "comm/comm_impl.h"

#include "base/os/os.h"
#include "base/text/text.h"
#include "job/board_waits.h"
#include "job/rank_end.h"

/* seconds for this rank to find the cause itself after another rank's team broke */
static const double own_report_s = 1;
/* seconds for messages to arrive that a rank of another host sent before it left */
static const double last_report_s = 5;

/* Whether `is` has been true for at least `least_s`. *since_s: time when that was first seen; 0: `is` is false. */
static bool has_lasted(double *since_s, bool is, double least_s)
{
    if (!is) {
        *since_s = 0;
        return false;
    }
    double now_s = tess_os_now_s();
    if (*since_s == 0)
        *since_s = now_s;
    return now_s - *since_s >= least_s;
}

int tess_work_missing(const tess_work *work, int *ranks)
{
    const tess_team *team = work->team;
    const tess_work *oldest = team->head != NULL ? team->head : work;
    /* Operations of other teams count, too: the awaited rank may wait for this one there. */
    if (tess_ondevice_is_late(team->runtime)) {
        ranks[0] = team->rank;
        return 1;
    }
    bool own = !tess_work_is_message(work) && oldest->backend->missing != NULL;
    return own ? oldest->backend->missing(work, ranks) : team->backend->missing(work, ranks);
}

/* Whether a member that `work` waits for has ended, so that it can never come. */
static bool find_ended(const tess_work *work, int *ended)
{
    tess_team *team = work->team;
    bool left = false;
    int *ranks = team->lists.awaited;
    int n = tess_work_is_message(work) || team->size > 1 ? tess_work_missing(work, ranks) : 0;
    for (int i = 0; i < n; i++) {
        int rank = team->ranks[ranks[i]];
        uint32_t state = atomic_load(&team->runtime->job.rows[rank].state);
        if (rank == team->runtime->rank || state == JOB_RANK_JOINED)
            continue;
        /* The news that a rank left in good order may arrive before its last messages. */
        left = state == JOB_RANK_LEFT && team->runtime->job.rows[rank].host != team->runtime->row->host;
        if (!left || has_lasted(&team->left_seen_s, true, last_report_s)) {
            *ended = rank;
            return true;
        }
    }
    if (!left)
        team->left_seen_s = 0;
    return false;
}

/* Chooses the member to blame among those that did not come: one that does not wait itself, preferably one about
 * which the watchdog has a finding. -1: none. */
static int choose_culprit(const tess_team *team, const int *members, int n)
{
    const tess_job *job = &team->runtime->job;
    int found = -1;
    for (int i = 0; i < n; i++) {
        int rank = team->ranks[members[i]];
        if (tess_board_awaited_waits(job, rank) != 0)
            continue;
        if (tess_ending_keeps_waiting(job, rank))
            return rank;
        found = found < 0 ? rank : found;
    }
    return found < 0 && n > 0 ? team->ranks[members[0]] : found;
}

static void fail_timeout(tess_team *team, const tess_work *work, const char *what, double timeout_s)
{
    const tess_job *job = &team->runtime->job;
    char text[700] = "";
    int *ranks = team->lists.awaited, n = tess_work_missing(work, ranks);
    size_t at = 0;
    for (int i = 0; i < n && at + 160 < sizeof(text); i++) {
        char state[400];
        int rank = team->ranks[ranks[i]];
        at = tess_text_add(text, sizeof(text), at, "; rank %d %s", rank,
                           tess_board_describe(job, rank, state, sizeof(state)));
    }
    TESS_FAIL(TESS_E_TIMEOUT, "%s: %d of %d ranks did not come within %.3g s%s", what, n, team->size, timeout_s, text);
    tess_team_break(team, TESS_E_TIMEOUT, choose_culprit(team, ranks, n));
}

/* Returns a member on another host whose part of the team is broken, so that it joins no further operation. -1:
 * none, or the reason may not have arrived yet. */
static int find_broken(tess_team *team)
{
    int found = -1;
    for (int r = 0; !tess_team_is_local(team) && r < team->size && found < 0; r++) {
        const tess_job_row *row = &team->runtime->job.rows[team->ranks[r]];
        if (r != team->rank && atomic_load(&row->broken_team) == team->hash)
            found = team->ranks[r];
    }
    return has_lasted(&team->broken_seen_s, found >= 0, own_report_s) ? found : -1;
}

void tess_work_look_for_trouble(tess_work *work, double waited_s, double timeout_s)
{
    tess_team *team = work->team;
    tess_runtime *rt = team->runtime;
    char what[256], end[640];
    int lost = atomic_load(&rt->job.header->first_lost), again = -1, broken = find_broken(team);
    uint32_t given_up = atomic_load(&team->control->given_up);
    /* Work that ranks finished before they ended still counts, and is visible by now, so progress once more. */
    bool trouble = lost >= 0 || given_up != 0 || broken >= 0 || find_ended(work, &again);
    if (trouble)
        tess_team_progress(team);
    if ((trouble && work->done) || (!trouble && waited_s < timeout_s))
        return;
    tess_fingerprint_format(&work->fp, team->name, what, sizeof(what));
    if (!trouble) {
        fail_timeout(team, work, what, timeout_s);
    } else if (lost >= 0 || find_ended(work, &lost)) {
        TESS_FAIL(TESS_E_PEER_LOST, "%s; this rank (%d) was waiting in %s",
                  tess_board_describe_end(&rt->job, lost, end, sizeof(end)), rt->rank, what);
        tess_team_break(team, TESS_E_PEER_LOST, lost);
    } else if (given_up != 0) {
        int rank = team->ranks[given_up - 1];
        TESS_FAIL(TESS_E_CANCELLED,
                  "rank %d gave up an operation of team '%s' (tess_work_cancel) while this rank was in %s", rank,
                  team->name, what);
        tess_team_break(team, TESS_E_CANCELLED, rank);
    } else if (broken >= 0) {
        TESS_FAIL(TESS_E_CANCELLED, "rank %d gave up on team '%s' (%.*s) while this rank (%d) was in %s", broken,
                  team->name, JOB_ERROR_BYTES, rt->job.rows[broken].error, rt->rank, what);
        tess_team_break(team, TESS_E_CANCELLED, broken);
    }
}
