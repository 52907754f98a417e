/* `tessera plan`. */
#include "cli/plan/cli_plan.h"

static const cli_command *const verbs[] = {&cli_plan_advise};
const cli_command cli_plan = {"plan",
                              "VERB ...",
                              "plan a run before it starts",
                              .examples = "tessera plan advise memory --params 7 --ranks 8\n"
                                          "tessera plan advise strategy --params 70 --ranks 64\n"
                                          "tessera plan advise volume --model 60 --seconds 5",
                              .verbs = verbs,
                              .n_verbs = 1};
