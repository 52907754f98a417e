/* The live view of `tessera top`: a page on the terminal, drawn at every interval until a key ends it. */
#ifndef TESS_CLI_DOCTOR_TOP_VIEW_H
#define TESS_CLI_DOCTOR_TOP_VIEW_H

#include "job/find.h"

/* Shows the job that `what` names (tess_live_find). If there are several, the user chooses one. Returns when the
 * user quits. Errors: TESS_E_NOT_FOUND: there is no such job; TESS_E_UNSUPPORTED: the terminal cannot show a page. */
tess_status cli_top_view(tess_mem *mem, const char *what, double interval_s);

#endif
