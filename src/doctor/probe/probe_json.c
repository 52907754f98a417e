/* Formats the findings for programs. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "doctor/probe/probe.h"

static json_t *finding_json(const tess_probe_report *report, const tess_probe_finding *finding, const char *host)
{
    static const char *const results[] = {"ok", "warn", "fail", "not here"};
    const tess_probe_check *check = tess_probe_find(report, finding->name);
    json_t *row = json_pack("{s:s, s:s, s:s?, s:s, s:s, s:s, s:s}", "name", finding->name, "group",
                            tess_probe_group_name((tess_probe_group)finding->group), "host", host, "result",
                            results[finding->outcome & 3], "found", finding->text, "threshold",
                            check != NULL ? check->threshold : "", "fix", check != NULL ? check->fix : "");
    return row != NULL ? row : json_null(); /* a text that is not UTF-8 */
}

static json_t *checks_json(const tess_probe_report *report)
{
    json_t *rows = json_array();
    for (int host = 0; host <= report->n_hosts; host++) {
        bool job = host == report->n_hosts;
        const tess_probe_findings *findings = job ? report->job : &report->hosts[host];
        for (int i = 0; i < findings->n; i++)
            json_array_append_new(rows, finding_json(report, &findings->at[i], job ? NULL : report->host_names[host]));
    }
    return rows;
}

tess_status tess_probe_write_json(const tess_probe_report *report, FILE *out)
{
    const char *outcome = tess_probe_count(report, TESS_PROBE_FAIL) > 0   ? "fail"
                          : tess_probe_count(report, TESS_PROBE_WARN) > 0 ? "warn"
                                                                          : "ok";
    json_t *root = json_pack("{s:s, s:i, s:s, s:s, s:i, s:i, s:f, s:o}", "format", "tessera-preflight", "version", 1,
                             "tessera", TESS_VERSION, "verdict", outcome, "ranks", report->n_ranks, "hosts",
                             report->n_hosts, "seconds", report->seconds, "checks", checks_json(report));
    TESS_CHECK(root != NULL, TESS_E_NOMEM, "no memory for the report");
    bool written = json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(4)) == 0 && fputc('\n', out) != EOF;
    json_decref(root);
    TESS_CHECK(written, TESS_E_IO, "write the report: %s", strerror(errno));
    return TESS_OK;
}
