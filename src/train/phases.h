/* What a rank that trains is in, for whoever looks from outside. */
#ifndef TESS_TRAIN_PHASES_H
#define TESS_TRAIN_PHASES_H

/* Every name that is given to tess_runtime_phase, and the moments in between that drills may ask for
 * (tess_inject_moment); NULL behind the last. A fault at any other is refused (tess_runtime_options.phases). */
extern const char *const tess_train_phases[];

#endif
