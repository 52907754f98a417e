/* Loads the machine that a plan is for. */
#ifndef TESS_CLI_PLAN_LOAD_MACHINE_H
#define TESS_CLI_PLAN_LOAD_MACHINE_H

#include "plan/kernel_times.h"
#include "plan/plan_machine.h"

enum { CLI_TIMES_PATH = 1024 };

/* Whether --machine means this machine. NULL: the flag was not given. */
bool cli_machine_is_here(const char *name);
/* Loads the times that were measured on this machine, if there are any, from the folder `cache`; NULL: the usual one.
 * Writes the path of their file. Free *times with tess_kernel_times_free. */
tess_status cli_load_times(tess_mem *mem, const char *cache, tess_kernel_times *times, char path[CLI_TIMES_PATH]);
/* Loads the machine of --machine. This one has the peaks and times of `times`, which it borrows, if they are any.
 * price: of a device or a CPU host, per hour, as --price gives it; 0: that of the machine's file, if it has one. */
tess_status cli_load_machine(tess_mem *mem, const char *name, double price, const tess_kernel_times *times,
                             tess_machine *machine);
/* Gives the machine products in FP8. TESS_E_INVALID: its file lacks their peak */
tess_status cli_machine_use_fp8(tess_machine *machine);

/* The flag --price of the commands that load a machine; value: a double. */
#define CLI_PRICE_FLAG(value)                                                                      \
    {                                                                                              \
        "--price", "P", "price of a GPU, or of a CPU host, per hour (that of the machine's file)", \
            .number = value, .least = 0, .most = 1e9                                               \
    }

#endif
