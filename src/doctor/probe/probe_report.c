/* Reports the findings: on one screen for people, and as JSON for programs. */
#include <string.h>

#include "base/report/form.h"
#include "base/text/json.h"
#include "doctor/probe/probe.h"

static const tess_form_part form[] = {
    {.text = "[{failed:!}not ready|ready]: {failed} failed, {warned} warning{warned:s}, {fine} fine ({ranks} "
             "rank{ranks:s} on "
             "{hosts} host{hosts:s}, {seconds:.1f} s)\n"},
    {.list = "trouble", .text = "{word:-8}{name:-15} {text:24w}\n                        fix: {fix:29w}\n"},
    {.list = "quiet", .text = "{word:-8}{text:8w}\n"},
    {NULL, NULL}};

/* Returns the i-th table of findings: first those of the hosts, then those of the ranks. */
static const tess_probe_findings *part(const tess_probe_report *report, int i)
{
    return i < report->n_hosts ? &report->hosts[i] : report->job;
}

/* Whether the findings contain an equal one. Equal findings of several hosts are printed once. */
static bool alike(const tess_probe_findings *findings, const tess_probe_finding *finding)
{
    for (int k = 0; k < findings->n; k++)
        if (strcmp(findings->at[k].name, finding->name) == 0 && findings->at[k].outcome == finding->outcome)
            return true;
    return false;
}

static bool was_reported(const tess_probe_report *report, int host, const tess_probe_finding *finding)
{
    for (int h = 0; h < host && host < report->n_hosts; h++)
        if (alike(&report->hosts[h], finding))
            return true;
    return false;
}

int tess_probe_count(const tess_probe_report *report, tess_probe_outcome outcome)
{
    int n = 0;
    for (int i = 0; i <= report->n_hosts; i++)
        for (int k = 0; k < part(report, i)->n; k++) {
            const tess_probe_finding *finding = &part(report, i)->at[k];
            n += finding->outcome == (int)outcome && !was_reported(report, i, finding);
        }
    return n;
}

/* Formats "host a (and b, c, 5 more): "; "" if the job has one host. Returns text. */
static const char *name_hosts(const tess_probe_report *report, int host, const tess_probe_finding *finding, char *text,
                              size_t size)
{
    int n_others = 0;
    text[0] = '\0';
    if (report->n_hosts == 1 || host == report->n_hosts)
        return text;
    size_t at = (size_t)snprintf(text, size, "host %s", report->host_names[host]);
    for (int h = host + 1; h < report->n_hosts; h++)
        if (alike(&report->hosts[h], finding) && n_others++ < 3)
            at = tess_text_add(text, size, at, "%s%s", n_others == 1 ? " (and " : ", ", report->host_names[h]);
    if (n_others > 3)
        at = tess_text_add(text, size, at, ", %d more", n_others - 3);
    tess_text_add(text, size, at, n_others > 0 ? "): " : ": ");
    return text;
}

static void add_trouble(const tess_probe_report *report, tess_probe_outcome outcome, const char *word, json_t *list)
{
    for (int i = 0; i <= report->n_hosts; i++)
        for (int k = 0; k < part(report, i)->n; k++) {
            const tess_probe_finding *finding = &part(report, i)->at[k];
            char hosts[400], text[TESS_PROBE_TEXT_BYTES + sizeof(hosts)];
            tess_probe_check check;
            tess_probe_check_find(finding->name, &check);
            if (finding->outcome != (int)outcome || was_reported(report, i, finding))
                continue;
            snprintf(text, sizeof(text), "%s%s", name_hosts(report, i, finding, hosts, sizeof(hosts)), finding->text);
            json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:s}", "word", word, "name", finding->name, "text",
                                                  tess_json_text(text), "fix", check.fix));
        }
}

/* Adds the line "name: text; name: text" of a group's findings, if there are any. */
static tess_status add_quiet(const tess_probe_report *report, tess_probe_outcome outcome, int group, const char *word,
                             tess_buffer *line, json_t *list)
{
    line->size = 0;
    for (int i = 0; i <= report->n_hosts; i++)
        for (int k = 0; k < part(report, i)->n; k++) {
            const tess_probe_finding *finding = &part(report, i)->at[k];
            if (finding->outcome == (int)outcome && finding->group == group && !was_reported(report, i, finding))
                TESS_TRY(
                    tess_buffer_printf(line, "%s%s: %s", line->size > 0 ? "; " : "", finding->name, finding->text));
        }
    if (line->size > 0)
        json_array_append_new(list, json_pack("{s:s, s:o}", "word", word, "text", tess_json_text(line->data)));
    return TESS_OK;
}

static json_t *finding_json(const tess_probe_finding *finding, const char *host)
{
    static const char *const results[] = {"ok", "warn", "fail", "not here"};
    tess_probe_check check;
    tess_probe_check_find(finding->name, &check);
    json_t *row = json_pack("{s:s, s:s, s:s?, s:s, s:s, s:s, s:s}", "name", finding->name, "group",
                            tess_probe_group_name((tess_probe_group)finding->group), "host", host, "result",
                            results[finding->outcome & 3], "found", finding->text, "threshold", check.threshold, "fix",
                            check.fix);
    return row != NULL ? row : json_null(); /* NULL: a text of it is not UTF-8 */
}

static json_t *describe(const tess_probe_report *report)
{
    json_t *rows = json_array();
    for (int i = 0; i <= report->n_hosts; i++)
        for (int k = 0; k < part(report, i)->n; k++)
            json_array_append_new(
                rows, finding_json(&part(report, i)->at[k], i < report->n_hosts ? report->host_names[i] : NULL));
    const char *outcome = tess_probe_count(report, TESS_PROBE_FAIL) > 0   ? "fail"
                          : tess_probe_count(report, TESS_PROBE_WARN) > 0 ? "warn"
                                                                          : "ok";
    return json_pack("{s:s, s:i, s:s, s:s, s:i, s:i, s:f, s:o}", "format", "tessera-preflight", "version", 1, "tessera",
                     TESS_VERSION, "verdict", outcome, "ranks", report->n_ranks, "hosts", report->n_hosts, "seconds",
                     report->seconds, "checks", rows);
}

/* Adds what only people are told: counts, and the findings in the order of their importance. */
static tess_status add_shown(const tess_probe_report *report, tess_mem *mem, json_t *root)
{
    json_t *trouble = json_array(), *quiet = json_array();
    tess_buffer line = {.mem = mem};
    tess_status status = TESS_OK;
    add_trouble(report, TESS_PROBE_FAIL, "FAILED", trouble);
    add_trouble(report, TESS_PROBE_WARN, "warning", trouble);
    for (int g = 0; g < TESS_PROBE_GROUPS && status == TESS_OK; g++)
        status = add_quiet(report, TESS_PROBE_OK, g, tess_probe_group_name((tess_probe_group)g), &line, quiet);
    for (int g = 0; g < TESS_PROBE_GROUPS && status == TESS_OK; g++)
        status = add_quiet(report, TESS_PROBE_ABSENT, g, "absent", &line, quiet);
    tess_buffer_free(&line);
    json_object_update_new(root,
                           json_pack("{s:i, s:i, s:i, s:o, s:o}", "failed", tess_probe_count(report, TESS_PROBE_FAIL),
                                     "warned", tess_probe_count(report, TESS_PROBE_WARN), "fine",
                                     tess_probe_count(report, TESS_PROBE_OK), "trouble", trouble, "quiet", quiet));
    return status;
}

tess_status tess_probe_print(const tess_probe_report *report, int columns, tess_buffer *out)
{
    json_auto_t *root = describe(report);
    if (columns == 0)
        return tess_json_print(json_incref(root), JSON_INDENT(2) | JSON_REAL_PRECISION(4), out);
    TESS_TRY(add_shown(report, out->mem, root));
    return tess_form_print(out, form, columns, root);
}
