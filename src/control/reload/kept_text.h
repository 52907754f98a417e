/* Keeps the configuration in force in job.dump_folder while a change at a later step (job.reload_step) is planned: the
 * file has the new values by then. If the job is killed before that step, the same command goes on with the old ones.
 */
#ifndef TESS_CONTROL_RELOAD_KEPT_TEXT_H
#define TESS_CONTROL_RELOAD_KEPT_TEXT_H

#include "control/reload/config_text.h"

/* Writes the text in force. */
tess_status tess_kept_text_write(const tess_config_text *in_force);
void tess_kept_text_remove(const tess_config *config);

/* Returns the step from which a job with this configuration goes on: that of a checkpoint; 0: from the beginning. */
int64_t tess_kept_text_begin(const tess_config *config);

/* Called with the file as it was read at the start. If it states a step that the job has not reached, and a text was
 * kept, replaces *text by that one and sets *kept. */
tess_status tess_kept_text_choose(const tess_config_source *source, tess_config_text **text, bool *kept);

#endif
