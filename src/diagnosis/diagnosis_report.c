/* Writes the report of a diagnosis: headline, evidence and advice. */
#include <stdio.h>

#include "diagnosis/request.h"
#include "diagnosis/diagnosis_impl.h"

/* Adds a hint if equal requests come from different lines of the program. That is correct under `if rank == 0`, or a
 * first sign of the bug. */
static void add_site_hint(diagnosis_search *search)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    const tess_team_view *team = tess_view_team(&search->view, diagnosis->record.team);
    if (team == NULL || !diagnosis_is_absence(diagnosis->kind) || diagnosis->record.op == TESS_TRACE_NONE)
        return;
    for (int i = 0; i < team->team->n_ranks; i++) {
        const tess_record *other = tess_member_at(&team->members[i], diagnosis->record.sequence);
        char site[TESS_REQUEST_SITE_BYTES];
        if (other == NULL || tess_request_same_site(other, &diagnosis->record))
            continue;
        diagnosis_add_line(diagnosis, "hint: rank %d came there from another line of the program, %s",
                           team->members[i].rank, tess_request_site(other, site, sizeof(site)));
        return;
    }
}

static void add_site_line(tess_diagnosis *diagnosis, const char *who, const tess_record *record)
{
    char site[TESS_REQUEST_SITE_BYTES];
    if (record->op != TESS_TRACE_NONE && tess_request_site(record, site, sizeof(site))[0] != '\0')
        diagnosis_add_line(diagnosis, "%s called %s #%llu at %s", who, tess_trace_op_name(record->op),
                           (unsigned long long)record->sequence, site);
}

static void add_absence_lines(diagnosis_search *search)
{
    enum { MOST_REPORTED = 4 };
    tess_diagnosis *diagnosis = search->diagnosis;
    for (int i = 0; i < diagnosis->n_ranks && i < MOST_REPORTED; i++) {
        const tess_rank_history *rank = &search->history->ranks[diagnosis->ranks[i]];
        if (rank->why[0] != '\0')
            diagnosis_add_line(diagnosis, "rank %d: %.*s", diagnosis->ranks[i], TESS_HISTORY_LONG_TEXT - 1, rank->why);
        if (rank->error[0] != '\0')
            diagnosis_add_line(diagnosis, "rank %d says: %.200s", diagnosis->ranks[i], rank->error);
        if (i > 0 && rank->n_spans > 0) { /* the headline already holds the phase of the first culprit */
            const tess_phase_span *span = &rank->spans[rank->n_spans - 1];
            diagnosis_add_line(diagnosis, "rank %d was last seen in phase '%.*s' of step %lld", diagnosis->ranks[i],
                               TESS_TRACE_PHASE_BYTES, span->phase, (long long)span->step);
        }
    }
    add_site_line(diagnosis, "who waits", &diagnosis->record);
    add_site_line(diagnosis, diagnosis->n_ranks == 1 ? "it last" : "the first of them last", &diagnosis->odd);
}

/* Adds which part of the model or the data the culprit holds. */
static void add_places(diagnosis_search *search)
{
    enum { MOST_PLACES = 4 };
    char text[TESS_PLACE_TEXT];
    tess_diagnosis *diagnosis = search->diagnosis;
    const tess_places *places = &search->history->places;
    for (int i = 0; i < diagnosis->n_ranks && i < MOST_PLACES && places->n_axes > 0; i++)
        diagnosis_add_line(diagnosis, "rank %d is %s", diagnosis->ranks[i],
                           tess_place_text(places, diagnosis->ranks[i], text, sizeof(text)));
}

/* Writes the advice. For stopped processes of a live job, it is a command that continues them. */
static void write_fix(diagnosis_search *search)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    tess_sentence fix = tess_sentence_begin(diagnosis->fix, sizeof(diagnosis->fix));
    if (diagnosis->kind != TESS_DIAGNOSIS_STOPPED || search->history->source != TESS_HISTORY_LIVE) {
        tess_sentence_add(&fix, "%s", diagnosis_advice(search));
        return;
    }
    tess_sentence_add(&fix, "find out who stopped %s, or go on: ", diagnosis->n_ranks == 1 ? "it" : "them");
    bool several = diagnosis_has_several_hosts(search->history);
    const char *last = NULL;
    for (int i = 0; i < diagnosis->n_ranks; i++) {
        const tess_rank_history *rank = &search->history->ranks[diagnosis->ranks[i]];
        tess_sentence_continue(&fix, rank->pid, several ? rank->host : "", &last);
    }
}

void diagnosis_report(diagnosis_search *search)
{
    tess_diagnosis *diagnosis = search->diagnosis;
    tess_sentence headline = tess_sentence_begin(diagnosis->headline, sizeof(diagnosis->headline));
    diagnosis_write_headline(search, &headline);
    add_places(search);
    if (diagnosis_is_absence(diagnosis->kind))
        add_absence_lines(search);
    add_site_hint(search);
    write_fix(search);
}
