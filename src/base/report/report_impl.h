/* Internal to base/report: writers that need no form (report_html.c, report_metrics.c). */
#ifndef TESS_BASE_REPORT_REPORT_IMPL_H
#define TESS_BASE_REPORT_REPORT_IMPL_H

#include "base/report/form.h"

tess_status report_html(const json_t *report, tess_buffer *out);
tess_status report_metrics(const json_t *report, tess_buffer *out);

#endif
