/* Formats the findings: on one screen for people, and as JSON for programs. */
#include <string.h>

#include "base/text/json.h"
#include "doctor/probe/probe.h"

enum { INDENT = 8, NAME_WIDTH = 15 };

/* Returns the check of a finding, or NULL if no check has that name. */
static const tess_probe_check *find_check(const tess_probe_report *report, const char *name)
{
    const tess_probe_check *check;
    for (int group = 0; group < TESS_PROBE_GROUPS; group++)
        for (int i = 0; (check = tess_probe_check_at((tess_probe_group)group, i)) != NULL; i++)
            if (strcmp(check->name, name) == 0)
                return check;
    for (int i = 0; i < report->n_config_checks; i++)
        if (strcmp(report->config_checks[i].name, name) == 0)
            return &report->config_checks[i];
    return NULL;
}

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

/* Prints `text` in lines of `columns`, starting at column `at`; further lines are indented by `indent`. Returns the
 * column after the text. */
static int wrap(FILE *out, const char *text, int at, int indent, int columns)
{
    while (*text != '\0') {
        int n = (int)strcspn(text, " ");
        if (at > indent && at + 1 + n > columns) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", n, text);
        at += n;
        text += n;
        text += strspn(text, " ");
    }
    return at;
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

static void print_one(const tess_probe_report *report, int host, const tess_probe_finding *finding, const char *word,
                      int columns, FILE *out)
{
    enum { TEXT = INDENT + NAME_WIDTH + 1, FIX = TEXT + 5 };
    char hosts[400], text[TESS_PROBE_TEXT_BYTES + sizeof(hosts)];
    const tess_probe_check *check = find_check(report, finding->name);
    name_hosts(report, host, finding, hosts, sizeof(hosts));
    snprintf(text, sizeof(text), "%s%s", hosts, finding->text);
    fprintf(out, "%-*s%-*s ", INDENT, word, NAME_WIDTH, finding->name);
    wrap(out, text, TEXT, TEXT, columns);
    fprintf(out, "\n%*sfix: ", TEXT, "");
    wrap(out, check != NULL ? check->fix : "", FIX, FIX, columns);
    fputc('\n', out);
}

static void print_trouble(const tess_probe_report *report, tess_probe_outcome outcome, const char *word, int columns,
                          FILE *out)
{
    for (int i = 0; i <= report->n_hosts; i++)
        for (int k = 0; k < part(report, i)->n; k++) {
            const tess_probe_finding *finding = &part(report, i)->at[k];
            if (finding->outcome == (int)outcome && !was_reported(report, i, finding))
                print_one(report, i, finding, word, columns, out);
        }
}

/* Prints "name text, name text" for the findings of a group, wrapped. */
static void print_quiet(const tess_probe_report *report, tess_probe_outcome outcome, int group, const char *word,
                        int columns, FILE *out)
{
    int at = 0;
    for (int i = 0; i <= report->n_hosts; i++)
        for (int k = 0; k < part(report, i)->n; k++) {
            char text[TESS_PROBE_TEXT_BYTES + TESS_PROBE_NAME_BYTES + 4];
            const tess_probe_finding *finding = &part(report, i)->at[k];
            if (finding->outcome != (int)outcome || finding->group != group || was_reported(report, i, finding))
                continue;
            if (at == 0)
                at = fprintf(out, "%-*s", INDENT, word);
            else
                at += fprintf(out, ";");
            snprintf(text, sizeof(text), "%s: %s", finding->name, finding->text);
            at = wrap(out, text, at, INDENT, columns);
        }
    if (at > 0)
        fputc('\n', out);
}

void tess_probe_print(const tess_probe_report *report, int columns, FILE *out)
{
    int n_failed = tess_probe_count(report, TESS_PROBE_FAIL), n_warned = tess_probe_count(report, TESS_PROBE_WARN);
    fprintf(out, "%s: %d failed, %d warning%s, %d fine (%d rank%s on %d host%s, %.1f s)\n",
            n_failed > 0 ? "not ready" : "ready", n_failed, n_warned, n_warned == 1 ? "" : "s",
            tess_probe_count(report, TESS_PROBE_OK), report->n_ranks, report->n_ranks == 1 ? "" : "s", report->n_hosts,
            report->n_hosts == 1 ? "" : "s", report->seconds);
    print_trouble(report, TESS_PROBE_FAIL, "FAILED", columns, out);
    print_trouble(report, TESS_PROBE_WARN, "warning", columns, out);
    for (int group = 0; group < TESS_PROBE_GROUPS; group++)
        print_quiet(report, TESS_PROBE_OK, group, tess_probe_group_name((tess_probe_group)group), columns, out);
    for (int group = 0; group < TESS_PROBE_GROUPS; group++)
        print_quiet(report, TESS_PROBE_ABSENT, group, "absent", columns, out);
}

/* ---- JSON ---- */
static json_t *finding_json(const tess_probe_report *report, const tess_probe_finding *finding, const char *host)
{
    static const char *const results[] = {"ok", "warn", "fail", "not here"};
    const tess_probe_check *check = find_check(report, finding->name);
    json_t *row = json_pack("{s:s, s:s, s:s?, s:s, s:s, s:s, s:s}", "name", finding->name, "group",
                            tess_probe_group_name((tess_probe_group)finding->group), "host", host, "result",
                            results[finding->outcome & 3], "found", finding->text, "threshold",
                            check != NULL ? check->threshold : "", "fix", check != NULL ? check->fix : "");
    return row != NULL ? row : json_null(); /* NULL: a text of it is not UTF-8 */
}

tess_status tess_probe_write_json(const tess_probe_report *report, FILE *out)
{
    json_t *rows = json_array();
    for (int i = 0; i <= report->n_hosts; i++)
        for (int k = 0; k < part(report, i)->n; k++)
            json_array_append_new(rows, finding_json(report, &part(report, i)->at[k],
                                                     i < report->n_hosts ? report->host_names[i] : NULL));
    const char *outcome = tess_probe_count(report, TESS_PROBE_FAIL) > 0   ? "fail"
                          : tess_probe_count(report, TESS_PROBE_WARN) > 0 ? "warn"
                                                                          : "ok";
    json_t *root = json_pack("{s:s, s:i, s:s, s:s, s:i, s:i, s:f, s:o}", "format", "tessera-preflight", "version", 1,
                             "tessera", TESS_VERSION, "verdict", outcome, "ranks", report->n_ranks, "hosts",
                             report->n_hosts, "seconds", report->seconds, "checks", rows);
    return tess_json_put(root, JSON_INDENT(2) | JSON_REAL_PRECISION(4), out);
}
