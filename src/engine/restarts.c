/* Reads when the schedule and the optimizer of a run have started. */
#include "base/text/json.h"
#include "engine/engine.h"

tess_status tess_restarts_read(const json_t *meta, const char *what, int64_t step, tess_restarts *r)
{
    TESS_TRY(tess_json_get_int(meta, "schedule_begin", what, &r->schedule));
    TESS_TRY(tess_json_get_int(meta, "optimizer_begin", what, &r->optimizer));
    TESS_CHECK(step >= 0 && r->schedule >= 0 && r->schedule <= step && r->optimizer >= 0 && r->optimizer <= step,
               TESS_E_FORMAT, "%s: its steps do not fit together", what);
    return TESS_OK;
}
