/* Writes a report in any style. */
#include "base/report/report_impl.h"
#include "base/text/json.h"

tess_status tess_form_put(json_t *report, const tess_form_part *form, tess_form_style style, size_t flags,
                          tess_buffer *out)
{
    if (style == TESS_FORM_JSON)
        return tess_json_print(report, flags, out);
    TESS_CHECK(report != NULL, TESS_E_NOMEM, "no memory for a report");
    tess_status status = style == TESS_FORM_HTML      ? report_html(report, out)
                         : style == TESS_FORM_METRICS ? report_metrics(report, out)
                                                      : tess_form_print(out, form, TESS_FORM_WIDTH, report);
    json_decref(report);
    return status;
}
