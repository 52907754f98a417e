/* Finds the wire that carries bytes between hosts, and loads its plug-in. */
#ifndef TESS_COMM_WIRE_WIRE_LOAD_H
#define TESS_COMM_WIRE_WIRE_LOAD_H

#include "comm/wire/wire.h"
#include "job/environment.h"

/* The table that fits the launcher that `starter` stands for. TESSERA_MPI=openmpi, mpich, tcp or the path of a plug-in
 * chooses another. Plug-ins are looked for next to the command and next to libtessera, in tessera/ of the library
 * folders that belong to them, then where the dynamic loader looks. The table stays loaded to the end of the process:
 * no MPI stands being unloaded.
 *
 * TESS_E_NOT_FOUND  there is no such plug-in: the message says who started the job and what to install.
 * TESS_E_UNSUPPORTED it cannot be loaded, or belongs to another version of Tessera.
 * TESS_E_INVALID    TESSERA_MPI names nothing known, or the process has another MPI in it already. */
tess_status tess_wire_load(tess_starter starter, const wire_table **table);

#endif
