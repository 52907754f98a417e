/* Pictures of a plan: memory and time of several layouts as bars, a step as a time line, and how the run scales with
 * ranks. A report (base/report/form.h) holds what they show. The text form draws with letters, plan_page.c as SVG. */
#ifndef TESS_PLAN_PLAN_PICTURES_H
#define TESS_PLAN_PLAN_PICTURES_H

#include <jansson.h>

#include "base/report/form.h"
#include "plan/plan.h"

enum { TESS_PICTURE_LAYOUTS = 17 };

typedef struct tess_pictures_request {
    /* its configuration has not passed tess_config_check_step: each layout is checked by itself. The global batch is
     * set */
    tess_plan_request plan;
    const char *layouts[TESS_PICTURE_LAYOUTS]; /* (n) settings, separated by spaces; "": those of the configuration */
    int n_layouts;
} tess_pictures_request;

/* Plans everything that the pictures show, and sets *report, a new reference. A layout that is refused is shown with
 * the reason. TESS_E_INVALID: the first layout is refused; or a setting is unknown. */
tess_status tess_plan_pictures(tess_mem *mem, tess_planner *planner, const tess_pictures_request *request,
                               json_t **report);
extern const tess_form_part tess_plan_pictures_form[];

/* Appends the report as a page of HTML that needs no other file. */
tess_status tess_plan_page(tess_mem *mem, const json_t *report, tess_buffer *out);

#endif
