/* Prints a diagnosis, for people and for programs. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/report/form.h"
#include "base/text/json.h"
#include "doctor/log/log_impl.h"
#include "doctor/table/clean.h"

const char *tess_log_kind_name(tess_log_kind kind)
{
    static const char *const names[] = {"nothing", "known", "error", "mismatch", "missing", "all_waited", "one_sided"};
    return names[kind];
}

/* The text of an entry of the knowledge base. */
#define ENTRY_TEXT                                                                        \
    "{id} ({role})\n"                                                                     \
    "[  symptom:  {symptom:12w}\n][  cause:    {cause:12w}\n][  check:    {check:12w}\n]" \
    "[  fix:      {fix:12w}\n][  not so:   {not_so:12w}\n][  source:   {source:12w}\n]"

static const tess_form_part form[] = {
    {.text = "[{found:!}[{verdict.is_cause:!}root cause: |what is known: ]]{verdict.text:2w}\n"},
    {.list = "evidence", .text = "  {:4w}\n"},
    {.text =
         "read: {files} file{files:s}, {lines} lines ({bytes:B}), {known_lines} of them known to {known} entries\n"},
    {.list = "shown", .text = "\n{lines} line{lines:s}[ of {who}], first {file}:{line}\n  {text:4w}\n" ENTRY_TEXT},
    {NULL, NULL}};

static void put_count(json_t *object, const char *key, int64_t count)
{
    if (count >= 0)
        json_object_set_new(object, key, json_integer(count));
}

static void put_entry(json_t *object, const tess_log_entry *entry)
{
    tess_clean_put(object, "symptom", entry->symptom);
    tess_clean_put(object, "cause", entry->cause);
    tess_clean_put(object, "check", entry->check);
    tess_clean_put(object, "fix", entry->fix);
    tess_clean_put(object, "not_so", entry->myth);
    tess_clean_put(object, "source", entry->source);
}

static json_t *describe_match(const tess_survey *s, int i)
{
    const tess_log_entry *entry = tess_knowledge_at(s->knowledge, i);
    const log_match *match = &s->matches[i];
    json_t *object = json_object();
    tess_clean_put(object, "id", entry->row.id);
    tess_clean_put(object, "role", tess_log_role_name(log_role_of(s, i)));
    put_count(object, "lines", match->n_lines);
    tess_clean_put(object, "file", s->files[match->first.file]);
    put_count(object, "line", match->first.line);
    put_count(object, "rank", match->rank);
    tess_clean_put(object, "text", match->excerpt);
    put_entry(object, entry);
    return object;
}

/* Lists the first host or process and those in `more`: ", h2, h3". */
static json_t *list_more(json_t *first, const char *more)
{
    char text[sizeof(((log_who *)NULL)->more_hosts)];
    json_t *list = json_array();
    bool are_numbers = json_is_integer(first);
    json_array_append_new(list, first);
    for (const char *at = more; *at != '\0'; at += strcspn(at, ",")) {
        at += 2;
        if (are_numbers && isdigit((unsigned char)*at))
            json_array_append_new(list, json_integer(strtol(at, NULL, 10)));
        else if (*at != '.') /* the "..." of a list that is full */
            json_array_append_new(list, json_string(tess_clean(at, strcspn(at, ","), text, sizeof(text))));
    }
    return list;
}

static json_t *describe_who(const log_who *who)
{
    json_t *object = json_object();
    const struct {
        const char *key, *text;
    } names[] = {{"host", who->host}, {"gpu", who->gpu},   {"actor", who->actor}, {"device", who->device},
                 {"peer", who->peer}, {"step", who->step}, {"what", who->what}};
    if (who->n_ranks > 0)
        json_object_set_new(object,
                            who->is_task    ? "tasks"
                            : who->is_local ? "local_ranks"
                                            : "ranks",
                            tess_json_ints(who->ranks, who->n_ranks));
    if (who->more_hosts[0] != '\0')
        json_object_set_new(object, "hosts", list_more(json_string(who->host), who->more_hosts));
    put_count(object, "pid", who->pid > 0 ? who->pid : -1);
    if (who->more_pids[0] != '\0')
        json_object_set_new(object, "pids", list_more(json_integer(who->pid), who->more_pids));
    if (who->more_gpus[0] != '\0')
        json_object_set_new(object, "gpus", list_more(json_string(who->gpu), who->more_gpus));
    if (who->more_peers[0] != '\0')
        json_object_set_new(object, "peers", list_more(json_string(who->peer), who->more_peers));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].text[0] != '\0')
            tess_clean_put(object, names[i].key, names[i].text);
    return object;
}

static json_t *describe_work(const log_work *work)
{
    json_t *object = json_object();
    tess_clean_put(object, "op", work->op);
    tess_clean_put(object, "group", work->group);
    tess_clean_put(object, "source_file", work->file);
    put_count(object, "source_line", work->file[0] != '\0' ? work->line : -1);
    put_count(object, "sequence", work->sequence);
    put_count(object, "numel_in", work->numel_in);
    put_count(object, "numel_out", work->numel_out);
    put_count(object, "timeout_ms", work->timeout_ms);
    put_count(object, "elapsed_ms", work->elapsed_ms);
    return object;
}

static json_t *describe_ranks(const tess_survey *s)
{
    json_t *ranks = json_array();
    for (int r = 0; r < s->n_ranks; r++) {
        const log_rank *rank = &s->ranks[r];
        const log_failure *failure = log_failure_of(s, r);
        if (!rank->seen && failure == NULL)
            continue;
        json_t *object = json_object();
        put_count(object, "rank", r);
        if (rank->waits)
            json_object_set_new(object, "waits", describe_work(&rank->work));
        if (rank->has_progress) {
            json_object_set_new(object, "last_enqueued", json_integer(rank->progress.enqueued));
            json_object_set_new(object, "last_completed", json_integer(rank->progress.completed));
        }
        if (failure != NULL)
            json_object_set_new(object, "exit_code", json_integer(failure->code));
        json_array_append_new(ranks, object);
    }
    return ranks;
}

static json_t *describe_diagnosis(const tess_log_diagnosis *v, const tess_survey *s)
{
    json_t *object = json_object(), *evidence = json_array();
    tess_clean_put(object, "kind", tess_log_kind_name(v->kind));
    tess_clean_put(object, "text", v->headline);
    json_object_set_new(object, "is_cause", json_boolean(v->is_cause));
    char clean[sizeof(v->evidence[0])];
    for (int i = 0; i < v->n_evidence; i++)
        json_array_append_new(evidence,
                              json_string(tess_clean(v->evidence[i], strlen(v->evidence[i]), clean, sizeof(clean))));
    json_object_set_new(object, "guilty_ranks", tess_json_ints(v->culprit, v->n_culprits));
    if (log_who_is_known(&v->who) || v->who.peer[0] != '\0')
        json_object_set_new(object, "who", describe_who(&v->who));
    if (log_who_is_known(&v->reporter))
        json_object_set_new(object, "reported_by", describe_who(&v->reporter));
    json_object_set_new(object, "evidence", evidence);
    if (v->entry >= 0)
        tess_clean_put(object, "entry", tess_knowledge_at(s->knowledge, v->entry)->row.id);
    put_count(object, "world", v->world > 0 ? v->world : -1);
    json_object_set_new(object, "world_known", json_boolean(v->world_known));
    if (v->work.op[0] != '\0')
        json_object_set_new(object, "work", describe_work(&v->work));
    if (v->bytes > 0) {
        json_object_set_new(object, "bytes", json_real(v->bytes));
        json_object_set_new(object, "traffic_bytes", json_real(v->traffic_bytes));
        json_object_set_new(object, "mb_per_s", json_real(v->mb_per_s));
    }
    return object;
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

static void add_match(const tess_survey *s, int i, json_t *list)
{
    char who[200] = "";
    const log_match *match = &s->matches[i];
    json_t *object = describe_match(s, i);
    if (match->ranks != NULL)
        log_name_ranks(said, match->ranks, end_of_ranks(match->ranks), who, sizeof(who));
    tess_clean_put(object, "who", who);
    json_array_append_new(list, object);
}

/* Adds what only people are told: how much was read, and the entries in the order of their importance. */
static void add_shown(const tess_survey *s, const tess_log_diagnosis *v, json_t *document)
{
    json_t *shown = json_array();
    if (v->entry >= 0)
        add_match(s, v->entry, shown);
    for (int role = TESS_LOG_CAUSE; role <= TESS_LOG_SYMPTOM; role++)
        for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
            if (i != v->entry && s->matches[i].n_lines > 0 && (int)log_role_of(s, i) == role)
                add_match(s, i, shown);
    json_object_update_new(document, json_pack("{s:b, s:O, s:I, s:I, s:o}", "found",
                                               v->kind >= TESS_LOG_ERROR && v->kind != TESS_LOG_ONE_SIDED, "evidence",
                                               json_object_get(json_object_get(document, "verdict"), "evidence"),
                                               "bytes", (json_int_t)s->n_bytes, "known_lines",
                                               (json_int_t)s->n_known_lines, "shown", shown));
}

tess_status tess_log_print_entry(const tess_log_entry *entry, tess_buffer *out)
{
    static const tess_form_part entry_form[] = {{.text = ENTRY_TEXT}, {NULL, NULL}};
    json_t *object =
        json_pack("{s:o, s:s}", "id", tess_clean_json(entry->row.id), "role", tess_log_role_name(entry->role));
    put_entry(object, entry);
    return tess_form_put(object, entry_form, TESS_FORM_TEXT, 0, out);
}

tess_status tess_log_print(const tess_survey *s, const tess_log_diagnosis *v, bool as_json, tess_buffer *out)
{
    json_t *document = json_object(), *matches = json_array();
    json_object_set_new(document, "version", json_integer(1));
    json_object_set_new(document, "known", json_integer(tess_knowledge_n(s->knowledge)));
    json_object_set_new(document, "files", json_integer(s->n_files));
    json_object_set_new(document, "lines", json_integer(s->n_lines));
    json_object_set_new(document, "verdict", describe_diagnosis(v, s));
    json_object_set_new(document, "ranks", describe_ranks(s));
    for (int i = 0; i < tess_knowledge_n(s->knowledge); i++)
        if (s->matches[i].n_lines > 0)
            json_array_append_new(matches, describe_match(s, i));
    json_object_set_new(document, "matches", matches);
    if (!as_json)
        add_shown(s, v, document);
    return tess_form_put(document, form, as_json ? TESS_FORM_JSON : TESS_FORM_TEXT,
                         JSON_INDENT(2) | JSON_REAL_PRECISION(9), out);
}
