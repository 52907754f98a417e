/* Describes a plan for people and programs. */
#ifndef TESS_PLAN_PLAN_REPORT_H
#define TESS_PLAN_PLAN_REPORT_H

#include "base/report/form.h"
#include "plan/plan.h"

/* Returns the members machine, memory, volume and time of a plan, as a new reference. */
json_t *tess_plan_json(const tess_plan_request *request, const tess_plan *plan);
extern const tess_form_part tess_plan_form[];

#endif
