/* Moving on what is under way.
 *
 * Over a network a collective advances when a rank of it looks: rounds that have arrived are added or copied, and the
 * next are sent. A rank that computes for long looks at every hook, so that a prefetch or a reduction does not stand
 * still until somebody waits for it. */
#include "parallel/fsdp/fsdp_impl.h"

void tess_fsdp_progress(tess_fsdp *fsdp)
{
    if (!fsdp->uses_wire)
        return;
    for (tess_fsdp_slot *slot = fsdp->slots; slot != NULL; slot = slot->next)
        if (slot->work != NULL)
            tess_work_done(slot->work);
    for (int u = 0; u < fsdp->n_units; u++) {
        const tess_unit *unit = fsdp->units[u];
        if (unit->reduce_work != NULL)
            tess_work_done(unit->reduce_work);
        if (unit->replica_work != NULL)
            tess_work_done(unit->replica_work);
    }
}
