#include "recover/record.h"

#include <stdio.h>

#include "base/text/text.h"

static int oldest(const tess_record_of_failures *record)
{
    return record->n > TESS_RECORD_NEWEST ? record->n - TESS_RECORD_NEWEST : 0;
}

tess_recorded_failure *tess_record_add(tess_record_of_failures *record, const tess_failure *failure, double now_s)
{
    tess_recorded_failure *new = &record->newest[record->n++ % TESS_RECORD_NEWEST];
    *new = (tess_recorded_failure){.at_s = now_s,
                                   .class = tess_failure_classify(failure),
                                   .rank = failure->rank,
                                   .group = -1,
                                   .step = failure->step,
                                   .evaluating = failure->evaluating};
    snprintf(new->text, sizeof(new->text), "%s", failure->text);
    return new;
}

int tess_record_count(const tess_record_of_failures *record, double now_s, double window_s)
{
    int n = 0;
    for (int i = oldest(record); i < record->n; i++) {
        const tess_recorded_failure *f = &record->newest[i % TESS_RECORD_NEWEST];
        n += !f->forgiven && now_s - f->at_s <= window_s;
    }
    return n;
}

bool tess_record_knows(const tess_record_of_failures *record, tess_failure_class class, int64_t step)
{
    for (int i = oldest(record); i < record->n; i++) {
        const tess_recorded_failure *f = &record->newest[i % TESS_RECORD_NEWEST];
        if (!f->forgiven && !f->evaluating && f->class == class && f->step == step)
            return true;
    }
    return false;
}

const char *tess_record_report(const tess_record_of_failures *record, double now_s, char *text, size_t size)
{
    size_t at = 0;
    text[0] = '\0';
    for (int i = oldest(record); i < record->n; i++) {
        const tess_recorded_failure *f = &record->newest[i % TESS_RECORD_NEWEST];
        at = tess_text_add(text, size, at, "\n  %.1f s ago: %s%s%s", now_s - f->at_s, f->text,
                           f->done[0] != '\0' ? "; " : "", f->done);
    }
    return text;
}
