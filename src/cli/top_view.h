/* The live view of `tessera top`: a page on the terminal, drawn again at every interval until a key ends it. */
#ifndef TESS_CLI_TOP_VIEW_H
#define TESS_CLI_TOP_VIEW_H

#include "job/find.h"

/* Looks at the job that `what` names (tess_live_find); where that are several, the user chooses. Returns when the user
 * has had enough. TESS_E_NOT_FOUND: no such job; TESS_E_UNSUPPORTED: this terminal cannot do it. */
tess_status cli_top_view(tess_mem *mem, const char *what, double interval_s);

#endif
