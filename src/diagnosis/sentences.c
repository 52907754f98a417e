/* Builds the headline of a diagnosis from the first row of a table that fits, and the sentences of reports. */
#include <signal.h>
#include <string.h>

#include "diagnosis/request.h"
#include "diagnosis/diagnosis_impl.h"

/* ---- The table ---- */
enum {
    TIE = 1 << 0,
    NOBODY = 1 << 1,     /* no culprit */
    WAITED_FOR = 1 << 2, /* others wait for the culprits */
    WHOLE_STEP = 1 << 3, /* the slip covers all operations of a step */
    SEVERAL = 1 << 4,    /* the slip covers several operations */
    LAST = 1 << 5,       /* no operation followed */
    ALIKE = 1 << 6,      /* both requests read the same */
    UNMET = 1 << 7,      /* a message without a counterpart */
    NONE = 1 << 8,       /* no operation of the culprit is known */
    DEAD = 1 << 9,       /* all records are known, and none is odd */
    STUCK = 1 << 10,     /* ranks are in an operation that no rank is missing from */
    ASKED = 1 << 11,     /* ranks were asked to end */
    ABSENT = 1 << 12,    /* the culprits are missing */
    KILLED = 1 << 13,    /* ranks died of a signal */
    EVERYBODY = 1 << 14, /* all ranks are culprits */
    UNSEEN = 1 << 15     /* the first culprit left no record */
};

#define FOUND "{witnesses} found together, and it is not known whose fault it is: {finding}"
#define DISAGREE "ranks disagree, a tie: {ranks} called {odd}, {waiting} called {record}"
#define END "{cut}{phase}[; {uneven}]"
#define AT_STEPS                                                                                             \
    "{who} {n_ranks:was|were} at step {odd_step} when {waiting} {n_waiting:was|were} at step {record_step}," \
    " first in {odd}: it "
#define NOT_SAID "the records do not say who is to blame[; {absent} rank{n_absent:|s} left none]"

static const struct {
    tess_diagnosis_kind kind; /* COUNT: any kind */
    unsigned when;            /* conditions that must all hold */
    const char *text;
} sentences[] = {
    {TESS_DIAGNOSIS_HEALTHY, 0, "no rank keeps others waiting[ for longer than {patience} s]"},
    {TESS_DIAGNOSIS_FINISHED, KILLED,
     "stopped by the operator: all ranks were asked to stop, and were killed[ in step {last_step}]"},
    {TESS_DIAGNOSIS_FINISHED, ASKED, "all ranks were asked to stop and did[, at step {last_step}]"},
    {TESS_DIAGNOSIS_FINISHED, 0, "all ranks ended in good order"},
    {TESS_DIAGNOSIS_UNDECIDED, DEAD,
     "the records end in the middle of the work and do not say why: killed with whoever would have told of it (a "
     "crash of a job of one rank, kill -9, power), or the job still runs, on another machine"},
    {TESS_DIAGNOSIS_UNDECIDED, STUCK,
     NOT_SAID
     "; {stuck} rank{n_stuck: is|s are} in an operation[ for longer than {patience} s], to which all have come"},
    {TESS_DIAGNOSIS_UNDECIDED, 0, NOT_SAID "[; {open} rank{n_open:|s} waited for others, for less than {limit} s]"},

    {TESS_DIAGNOSIS_NUMBERS, NOBODY, FOUND},
    {TESS_DIAGNOSIS_NUMBERS, 0, "{who}: {error}{waiters}"},
    {TESS_DIAGNOSIS_FAILED, NOBODY, FOUND},
    {TESS_DIAGNOSIS_FAILED, 0, "{who} ended by {n_ranks:an error of its own|the same error}: {error}{waiters}"},
    {TESS_DIAGNOSIS_MISSING, WAITED_FOR | UNSEEN,
     "{waiting} wait{n_waiting:s|} in {record}[, for {waited} s]; {who} {left}, and may be who did not come"},
    {TESS_DIAGNOSIS_MISSING, WAITED_FOR,
     "{who} keep{n_ranks:s|} {waiting} waiting in {record}[ for {waited} s]; {n_ranks:it|the first of them} "
     "{left}{last}"},
    {TESS_DIAGNOSIS_MISSING, 0, "{who} {left}{last}"},
    {TESS_DIAGNOSIS_STOPPED, EVERYBODY, "all ranks are stopped (a signal such as SIGSTOP, or a debugger)"},
    {TESS_DIAGNOSIS_COUNT, ABSENT, "{who} {situation}{last}{waiters}"},

    {TESS_DIAGNOSIS_MESSAGE, TIE | UNMET,
     "{ranks} and {waiting} disagree about a message, a tie: {record} has no other side"},
    {TESS_DIAGNOSIS_MESSAGE, TIE,
     "{ranks} and {waiting} disagree about a message, a tie: {ranks} called {odd}, {waiting} called {record}"},
    {TESS_DIAGNOSIS_MESSAGE, NONE, "{who} lacks the other side of {record} of {waiting}"},
    {TESS_DIAGNOSIS_MESSAGE, UNMET, "{who} called {record} has no other side"},
    {TESS_DIAGNOSIS_MESSAGE, 0, "{who} called {odd}, but {waiting} called {record}"},
    {TESS_DIAGNOSIS_DEADLOCK, WAITED_FOR | TIE,
     "{who} went to {odd} first, {waiting} to {record}: they wait for each other (a tie)[; {uneven}]"},
    {TESS_DIAGNOSIS_DEADLOCK, WAITED_FOR,
     "{who} went to {odd} first, {waiting} to {record}: they wait for each other[; {uneven}]"},
    {TESS_DIAGNOSIS_DEADLOCK, 0, "{who} wait for each other in a circle[, for {waited} s]"},

    {TESS_DIAGNOSIS_SKIPPED, TIE,
     DISAGREE " (one of them skipped an operation, or the other did one too many)[; {uneven}]"},
    {TESS_DIAGNOSIS_SKIPPED, WHOLE_STEP, AT_STEPS "skipped the operations of a step" END},
    {TESS_DIAGNOSIS_SKIPPED, SEVERAL, "{who} skipped {n} operations from {record} on" END},
    {TESS_DIAGNOSIS_SKIPPED, LAST, "{who} skipped {record}, or has put it off" END},
    {TESS_DIAGNOSIS_SKIPPED, 0, "{who} skipped {record}" END},
    {TESS_DIAGNOSIS_EXTRA, TIE,
     DISAGREE " (one of them did an operation too many, or the other skipped it)[; {uneven}]"},
    {TESS_DIAGNOSIS_EXTRA, WHOLE_STEP, AT_STEPS "did the operations of a step twice" END},
    {TESS_DIAGNOSIS_EXTRA, SEVERAL, "{who} called {odd} and {n_more} more, which nobody else did" END},
    {TESS_DIAGNOSIS_EXTRA, 0, "{who} called {odd}, which nobody else did" END},
    {TESS_DIAGNOSIS_ORDER, TIE, DISAGREE " (one of them swapped two operations)[; {uneven}]"},
    {TESS_DIAGNOSIS_ORDER, ALIKE,
     "{who} swapped two operations that are alike: it called {odd}, at {odd_site}, where {waiting} called one at "
     "{record_site}" END},
    {TESS_DIAGNOSIS_ORDER, 0, "{who} swapped two operations: it called {odd} before {record}" END},
    {TESS_DIAGNOSIS_MISMATCH_TEAM, TIE, DISAGREE " (one of them took the wrong team)[; {uneven}]"},
    {TESS_DIAGNOSIS_MISMATCH_TEAM, 0, "{who} called {odd}, on the wrong team: {waiting} called {record}" END},
    {TESS_DIAGNOSIS_COUNT, TIE, DISAGREE "{cut}[; {uneven}]"},
    {TESS_DIAGNOSIS_COUNT, 0, "{who} called {odd}, but {waiting} called {record}" END},
};

static const char *const reports[TESS_REPORT_COUNT] = {
    [TESS_REPORT_NONE] = "",
    [TESS_REPORT_STALL] = "{who} {n_who:has|have} kept {whom} waiting for {waited} s {where}; {whose} is {doing}[; the "
                          "deadline of {deadline} s has passed (comm.on_timeout=report): waiting on]",
    [TESS_REPORT_DIFFERENT] = "ranks are in different collectives[ ({tie})]: {culprits} in {own}, {in_it} in {work}",
    [TESS_REPORT_SAME_PLACE] = "same place in the sequence, other operation or counts: a branch or a shape that "
                               "differs between ranks",
    [TESS_REPORT_OTHER_PLACE] = "one group, different places in its sequence: some skipped a collective or called one "
                                "more",
    [TESS_REPORT_DISTANCE] = "{culprits} {n_culprits:is|are} {n} collective{n_n:|s} {side} {in_it}",
    [TESS_REPORT_STANDSTILL] = "the collective ran for {ran} h before its limit of {timeout} h was noticed: the "
                               "processes, or their host, probably stood still meanwhile",
    [TESS_REPORT_GROUPS] = "ranks wait in collectives of different groups: {in_it} in {work}, {in_other_group} in "
                           "{other_work}",
    [TESS_REPORT_APART] =
        "ranks wait in different collectives: {in_it} in {work}, {in_other_group} in {other_work}; the "
        "logs do not name the groups, so this may be one group in which {behind} behind, or several",
    [TESS_REPORT_NO_MEMBERS] = "logs do not say who belongs to a group; flight recorder dumps do: `tessera trace DIR`",
    [TESS_REPORT_ALL_WAITED] = "all {all} ranks waited in {work}: nobody is missing; probably the network or a device "
                               "stands still",
    [TESS_REPORT_ALL_SEEN_WAITED] = "every rank of these logs ({all}) waited in {work}: a rank without a line here is "
                                    "missing, or nobody (--world N tells how many there are) and the network or a "
                                    "device stands still",
    [TESS_REPORT_ONE_MORE] = "{culprits} called {work}, which {outside} never did: one collective more",
    [TESS_REPORT_NEVER_JOINED] = "{culprits} never joined {work}, in which {waiting} waited[ {timeout} s][{doubt}]",
    [TESS_REPORT_SOMEBODY_MISSING] = "{waiting} waited[ {timeout} s] in {work}; probably a rank did not come, and its "
                                     "log or those of the others say which",
    [TESS_REPORT_NO_TIMEOUT_OF] = "no timeout of {missing} is in these logs",
    [TESS_REPORT_CUT] = "a report of a timeout is cut off[ (that of {cut})]: those of other ranks may be lost with it",
    [TESS_REPORT_EFFECT] = "its effect: {waiting} waited[ {timeout} s] in {work}[, to which {culprits} never came]",
    [TESS_REPORT_EXIT] = "rank {rank}: torchrun saw it fail first, with exit code {exit_code}",
    [TESS_REPORT_PROGRESS] = "rank {rank}: last enqueued {enqueued}, last completed {completed}[, {outside}]: it "
                             "never came to #{sequence}",
    [TESS_REPORT_NOTIFIED] = "rank {rank}: was told of the others' timeout and had none itself",
    [TESS_REPORT_NO_TIMEOUT] = "rank {rank}: its log has no timeout",
    [TESS_REPORT_NO_LINE] = "rank {rank}: not a line of it is in these logs",
    [TESS_REPORT_BEHIND] = "{culprits} never reached {mark}, where {others} came[ (its last: {last})][{doubt}]",
};

static const char *const situations[TESS_SITUATION_COUNT] = {
    [TESS_RANK_CRASHED] = "was killed[ by signal {signal}]",
    [TESS_RANK_KILLED] = "was killed[ by signal {signal}]",
    [TESS_RANK_OOM_KILLED] = "was killed by the system for lack of memory",
    [TESS_RANK_EXITED] = "exited with code {exit_code}",
    [TESS_RANK_HOST_LOST] = "was lost with its host",
    [TESS_RANK_LEFT] = "has left the job in good order",
    [TESS_RANK_STOPPED] = "is stopped (a signal such as SIGSTOP, or a debugger)",
    [TESS_RANK_BLOCKED_IN_IO] = "is blocked in input or output",
    [TESS_RANK_LOADING_DATA] = "still loads data",
    [TESS_RANK_SLEEPING] = "sleeps in its own code",
    [TESS_RANK_COMPUTING] = "computes",
    [TESS_RANK_NOT_JOINED] = "has not joined the job",
};

/* ---- Fields ---- */
#define WAITERS "[; {waiting} wait{n_waiting:s|} for {n_ranks:it|them}[ in {record}][, for {waited} s]]"

enum { WHAT_BYTES = 224, PHASE_BYTES = 96 };

static void put_sentence(tess_fields *fields, const char *name, const char *sentence)
{
    tess_sentence words = tess_fields_add(fields, name, 1);
    tess_sentence_fill(&words, sentence, fields);
}

static void put_ranks(tess_fields *fields, const char *name, const int *ranks, int n)
{
    tess_sentence words = tess_fields_add(fields, name, n);
    if (n > 0)
        tess_sentence_ranks(&words, ranks, n);
}

/* Puts the requests of both sides. */
static void put_requests(const diagnosis_search *search, tess_fields *fields)
{
    const tess_diagnosis *diagnosis = search->diagnosis;
    const struct {
        const char *name, *site, *step;
        const tess_record *record;
    } sides[] = {{"record", "record_site", "record_step", &diagnosis->record},
                 {"odd", "odd_site", "odd_step", &diagnosis->odd}};
    for (int i = 0; i < 2; i++) {
        const tess_record *record = sides[i].record;
        char what[WHAT_BYTES], site[TESS_REQUEST_SITE_BYTES];
        bool known = record->op != TESS_TRACE_NONE;
        tess_fields_put(fields, sides[i].name, 1, "%s",
                        known ? tess_request_format(search->history, record, what, sizeof(what)) : "");
        tess_fields_put(fields, sides[i].site, 1, "%s", tess_request_site(record, site, sizeof(site)));
        tess_fields_put(fields, sides[i].step, 1, "%lld", (long long)record->step);
    }
}

/* Returns "after" for a completed operation, "in" for an open one, and "after asking for" for an open one if the
 * rank has since done something else. */
static const char *where_in(const tess_rank_history *rank, const tess_record *record)
{
    const tess_phase_span *last = rank->n_spans > 0 ? &rank->spans[rank->n_spans - 1] : NULL;
    tess_situation situation = diagnosis_situation(rank);
    if (record->state == TESS_TRACE_COMPLETED)
        return "after";
    bool went_on = (last != NULL && last->begin_ns > record->enqueued_ns) || situation == TESS_RANK_SLEEPING ||
                   situation == TESS_RANK_COMPUTING || situation == TESS_RANK_LOADING_DATA;
    return went_on ? "after asking for" : "in";
}

/* Writes the phase that the rank entered last, which may be newer than that of its last operation. */
static const char *own_phase(const tess_rank_history *rank, const tess_record *record, char *text, size_t size)
{
    if (rank->n_spans == 0)
        return tess_request_phase(record, text, size);
    const tess_phase_span *last = &rank->spans[rank->n_spans - 1];
    tess_record here = {.step = last->step, .detail = last->detail};
    memcpy(here.phase, last->phase, sizeof(here.phase));
    return tess_request_phase(&here, text, size);
}

/* Puts fields about the first culprit. */
static void put_first(const diagnosis_search *search, tess_fields *fields)
{
    const tess_diagnosis *diagnosis = search->diagnosis;
    const tess_rank_history *rank = &search->history->ranks[diagnosis->ranks[0]];
    const char *situation = situations[diagnosis_situation(rank)],
               *name = rank->signal > 0 ? sigabbrev_np(rank->signal) : NULL;
    char phase[PHASE_BYTES];
    tess_sentence words = tess_fields_add(fields, "who", diagnosis->n_ranks);
    diagnosis_name_ranks(search, diagnosis->ranks, diagnosis->n_ranks, &words);
    tess_fields_put(fields, "error", 1, "%.300s", rank->error);
    tess_fields_put(fields, "exit_code", 1, "%d", rank->exit_code);
    if (rank->signal != 0)
        tess_fields_put(fields, "signal", 1, "%d (SIG%s)", rank->signal, name != NULL ? name : "?");
    put_sentence(fields, "situation", situation != NULL ? situation : "broke off");
    put_sentence(fields, "left",
                 !rank->present                         ? "{n_ranks:has|have} left no record"
                 : diagnosis->odd.op == TESS_TRACE_NONE ? "has done no operation yet"
                                                        : "is");
    tess_fields_put(fields, "where", 1, "%s", where_in(rank, &diagnosis->odd));
    tess_fields_put(fields, "own_phase", 1, "%s", own_phase(rank, &diagnosis->odd, phase, sizeof(phase)));
    put_sentence(fields, "last", "[{odd:!} {where} {odd}]{own_phase}");
}

/* Puts an error that several ranks report, as one of them reports it. */
static void put_witnesses(const diagnosis_search *search, tess_fields *fields)
{
    const char *error = search->history->ranks[search->witness].error;
    int n = 0;
    for (int r = 0; r < search->history->world; r++)
        if (strcmp(search->history->ranks[r].error, error) == 0)
            search->queue[n++] = r;
    put_ranks(fields, "witnesses", search->queue, n);
    tess_fields_put(fields, "finding", 1, "%.300s", error);
}

static void put_count(tess_fields *fields, const char *name, int n)
{
    tess_sentence words = tess_fields_add(fields, name, n);
    if (n > 0)
        tess_sentence_add(&words, "%d", n);
}

/* Puts fields about the whole job. Returns the conditions that the job meets. */
static unsigned put_job(const diagnosis_search *search, tess_fields *fields)
{
    const tess_history *history = search->history;
    int n_open = 0, n_stuck = 0, n_absent = 0;
    bool asked = false, killed = false;
    int64_t step = -1;
    for (int r = 0; r < history->world; r++) {
        const tess_rank_history *rank = &history->ranks[r];
        int64_t last = rank->n_spans > 0 ? rank->spans[rank->n_spans - 1].step : -1;
        n_absent += !rank->present;
        n_open += diagnosis_waits_for_somebody(search, r);
        n_stuck += diagnosis_is_stuck(search, r);
        asked |= rank->asked;
        killed |= rank->signal != 0;
        step = last > step ? last : step;
    }
    put_count(fields, "absent", n_absent);
    put_count(fields, "open", n_open);
    put_count(fields, "stuck", n_stuck);
    if (step >= 0)
        tess_fields_put(fields, "last_step", 1, "%lld", (long long)step);
    bool dead = n_absent + n_open + n_stuck == 0 && history->source == TESS_HISTORY_RINGS;
    return (dead ? DEAD : 0) | (n_stuck > 0 ? STUCK : 0) | (asked ? ASKED : 0) | (killed ? KILLED : 0);
}

/* ---- The sentence ---- */
/* Whether no later operation can show if the culprit skipped the operation or only delayed it. */
static bool is_last(const diagnosis_search *search)
{
    const tess_diagnosis *diagnosis = search->diagnosis;
    const tess_team_view *team = tess_view_team(&search->view, diagnosis->team);
    const tess_member_view *member =
        team != NULL && diagnosis->n_ranks > 0 ? tess_view_member(team, diagnosis->ranks[0]) : NULL;
    const tess_record *newest = member != NULL ? tess_member_newest(member) : NULL;
    return diagnosis->n_operations == 1 && newest != NULL && newest->sequence <= diagnosis->odd.sequence;
}

static unsigned facts_of(const diagnosis_search *search)
{
    const tess_diagnosis *diagnosis = search->diagnosis;
    const tess_record *odd = &diagnosis->odd, *record = &diagnosis->record;
    return (diagnosis->tie ? TIE : 0) | (diagnosis->n_ranks == 0 ? NOBODY : 0) |
           (diagnosis->n_waiting > 0 ? WAITED_FOR : 0) | (diagnosis->n_operations == 0 ? WHOLE_STEP : 0) |
           (diagnosis->n_operations > 1 ? SEVERAL : 0) | (is_last(search) ? LAST : 0) |
           (tess_request_same(odd, record) ? ALIKE : 0) | (odd->op == TESS_TRACE_NONE ? NONE | UNMET : 0) |
           (record->op == odd->op ? UNMET : 0) | (diagnosis_is_absence(diagnosis->kind) ? ABSENT : 0) |
           (diagnosis->n_ranks == search->history->world ? EVERYBODY : 0) |
           (diagnosis->n_ranks > 0 && !search->history->ranks[diagnosis->ranks[0]].present ? UNSEEN : 0);
}

static unsigned put_fields(const diagnosis_search *search, tess_fields *fields)
{
    const tess_diagnosis *diagnosis = search->diagnosis;
    char phase[PHASE_BYTES];
    /* equal element counts in other pieces would read the same */
    bool cut = diagnosis->kind == TESS_DIAGNOSIS_MISMATCH_COUNT && diagnosis->odd.count == diagnosis->record.count;
    put_ranks(fields, "ranks", diagnosis->ranks, diagnosis->n_ranks);
    put_ranks(fields, "waiting", diagnosis->waiting, diagnosis->n_waiting);
    put_requests(search, fields);
    if (diagnosis->waited_s >= 0.05)
        tess_fields_put(fields, "waited", 1, "%.1f", diagnosis->waited_s);
    put_sentence(fields, "waiters", WAITERS);
    tess_fields_put(fields, "limit", 1, "%.2g", search->patience_s);
    if (search->patience_s > 0) /* 0 in dumps of another framework, where every wait counts */
        tess_fields_put(fields, "patience", 1, "%.2g", search->patience_s);
    tess_fields_put(fields, "n", diagnosis->n_operations, "%d", diagnosis->n_operations);
    tess_fields_put(fields, "n_more", diagnosis->n_operations - 1, "%d", diagnosis->n_operations - 1);
    tess_fields_put(fields, "cut", 1, "%s", cut ? " (as many elements, in other pieces)" : "");
    tess_fields_put(fields, "phase", 1, "%s", tess_request_phase(&diagnosis->odd, phase, sizeof(phase)));
    tess_fields_put(fields, "uneven", 1, "%s", search->uneven);
    if (diagnosis->n_ranks > 0)
        put_first(search, fields);
    else if (search->witness >= 0)
        put_witnesses(search, fields);
    bool whole_job = diagnosis->kind == TESS_DIAGNOSIS_UNDECIDED || diagnosis->kind == TESS_DIAGNOSIS_FINISHED;
    return facts_of(search) | (whole_job ? put_job(search, fields) : 0);
}

void diagnosis_write_headline(const diagnosis_search *search, tess_sentence *headline)
{
    tess_fields fields = {.n = 0};
    unsigned facts = put_fields(search, &fields);
    size_t i = 0;
    while ((sentences[i].kind != search->diagnosis->kind && sentences[i].kind != TESS_DIAGNOSIS_COUNT) ||
           (sentences[i].when & ~facts) != 0)
        i++;
    tess_sentence_fill(headline, sentences[i].text, &fields);
}

void tess_sentence_report(tess_sentence *words, tess_report_id id, const tess_fields *fields)
{
    tess_sentence_fill(words, reports[id], fields);
}
