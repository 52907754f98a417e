/* Prints a diagnosis for people. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

const char *tess_log_kind_name(tess_log_kind kind)
{
    static const char *const names[] = {"nothing", "known", "error", "mismatch", "missing", "all_waited", "one_sided"};
    return names[kind];
}

/* Prints a line such as "  fix:      text". */
static tess_status print_field(tess_buffer *out, const char *name, const char *text)
{
    enum { INDENT = 12 };
    char label[INDENT + 1];
    if (text == NULL)
        return TESS_OK;
    snprintf(label, sizeof(label), "  %s:", name);
    TESS_TRY(tess_buffer_printf(out, "%-*s", INDENT, label));
    return tess_wrap(out, INDENT, INDENT, text);
}

static tess_status print_entry(const tess_log_entry *entry, tess_log_role role, tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(out, "%s (%s)\n", entry->row.id, tess_log_role_name(role)));
    TESS_TRY(print_field(out, "symptom", entry->symptom));
    TESS_TRY(print_field(out, "cause", entry->cause));
    TESS_TRY(print_field(out, "check", entry->check));
    TESS_TRY(print_field(out, "fix", entry->fix));
    TESS_TRY(print_field(out, "not so", entry->myth));
    return print_field(out, "source", entry->source);
}

tess_status tess_log_print_entry(const tess_log_entry *entry, tess_buffer *out)
{
    return print_entry(entry, entry->role, out);
}

static bool said(const void *ranks, int rank)
{
    return ((const uint8_t *)ranks)[rank / 8] >> rank % 8 & 1;
}

/* Returns the highest rank plus one. */
static int end_of_ranks(const uint8_t *ranks)
{
    int end = LOG_MOST_RANKS;
    while (end > 0 && !said(ranks, end - 1))
        end--;
    return end;
}

static tess_status print_match(const tess_survey *s, int i, tess_buffer *out)
{
    const log_match *match = &s->matches[i];
    char who[200] = "";
    if (match->ranks != NULL)
        log_name_ranks(said, match->ranks, end_of_ranks(match->ranks), who, sizeof(who));
    TESS_TRY(tess_buffer_printf(out, "\n%" PRId64 " line%s%s%s, first %s:%" PRId64 "\n  ", match->n_lines,
                                match->n_lines == 1 ? "" : "s", who[0] != '\0' ? " of " : "", who,
                                s->files[match->first.file], match->first.line));
    TESS_TRY(tess_wrap(out, 2, 4, match->excerpt));
    return print_entry(tess_knowledge_at(s->knowledge, i), log_role_of(s, i), out);
}

tess_status tess_log_print(const tess_survey *s, const tess_log_diagnosis *v, tess_buffer *out)
{
    char bytes[32];
    bool found = v->kind >= TESS_LOG_ERROR && v->kind != TESS_LOG_ONE_SIDED;
    const char *title = !found ? "" : v->is_cause ? "root cause: " : "what is known: ";
    TESS_TRY(tess_buffer_printf(out, "%s", title));
    TESS_TRY(tess_wrap(out, strlen(title), 2, v->headline));
    for (int i = 0; i < v->n_evidence; i++) {
        TESS_TRY(tess_buffer_printf(out, "  "));
        TESS_TRY(tess_wrap(out, 2, 4, v->evidence[i]));
    }
    TESS_TRY(tess_buffer_printf(
        out, "read: %d file%s, %" PRId64 " lines (%s), %" PRId64 " of them known to %d entries\n", s->n_files,
        s->n_files == 1 ? "" : "s", s->n_lines, tess_format_bytes((double)s->n_bytes, bytes, sizeof(bytes)),
        s->n_known_lines, tess_knowledge_n(s->knowledge)));
    if (v->entry >= 0)
        TESS_TRY(print_match(s, v->entry, out));
    for (int role = TESS_LOG_CAUSE; role <= TESS_LOG_SYMPTOM; role++)
        for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
            if (i != v->entry && s->matches[i].n_lines > 0 && (int)log_role_of(s, i) == role)
                TESS_TRY(print_match(s, i, out));
    return TESS_OK;
}
