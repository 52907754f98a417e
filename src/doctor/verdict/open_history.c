#include "doctor/verdict/open_history.h"

#include "base/os/os.h"
#include "doctor/flight_recorder/flight_recorder.h"
#include "doctor/job/job.h"

/* A wait is reported if it lasts longer than this: much longer than scheduling delays, but short for a person. */
static const double patience_s = 0.75;

/* A running job is read from its memory, which holds more than its folder. Once the launcher has ended and written
 * job.json, the folder holds more. */
tess_status tess_history_open(tess_mem *mem, const char *what, tess_history **history)
{
    char folder[4096];
    tess_live_job live;
    int n;
    bool is_folder = tess_os_is_dir(what);
    tess_status found = tess_live_find(what, &live, 1, &n);
    *history = NULL;
    if (found == TESS_OK) {
        bool runs = tess_live_running(&live);
        tess_status status = runs || !is_folder ? tess_job_history_live(mem, &live, history) : TESS_OK;
        tess_live_close(&live);
        if (runs || !is_folder)
            return status;
    }
    TESS_CHECK(!tess_os_is_file(what), TESS_E_INVALID, "'%s' is one file: name the folder that holds it", what);
    if (!is_folder)
        return found; /* the message of tess_live_find explains why `what` is not a job */
    tess_error_clear();
    if (tess_job_folder_find(what, folder, sizeof(folder)))
        return tess_job_history_read(mem, what, history);
    tess_status status = tess_flight_recorder_read(mem, what, history);
    TESS_CHECK(
        status != TESS_E_NOT_FOUND, TESS_E_NOT_FOUND,
        "%s: neither traces of a job (rank-00000.ring or job.json, here or in 'trace') nor Flight Recorder dumps "
        "(nccl_trace_rank_0, rank_0.json): name the run's job.dump_folder, or the folder of the dumps",
        what);
    return status;
}

/* PyTorch writes dumps only for jobs that hang, so every wait in them counts. */
double tess_history_patience(const tess_history *history)
{
    return history->source == TESS_HISTORY_PYTORCH ? 0 : patience_s;
}
