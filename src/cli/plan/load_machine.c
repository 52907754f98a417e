#include "cli/plan/load_machine.h"

#include <string.h>

#include "base/os/os.h"

bool cli_machine_is_here(const char *name)
{
    return name == NULL || strcmp(name, "here") == 0;
}

tess_status cli_load_times(tess_mem *mem, const char *cache, tess_kernel_times *times, char path[CLI_TIMES_PATH])
{
    times->mem = mem;
    TESS_TRY(tess_kernel_times_path(cache != NULL ? cache : "", path, CLI_TIMES_PATH));
    return tess_os_is_file(path) ? tess_kernel_times_load(times, path) : TESS_OK;
}

tess_status cli_load_machine(tess_mem *mem, const char *name, double price, const tess_kernel_times *times,
                             tess_machine *machine)
{
    if (cli_machine_is_here(name))
        TESS_TRY(tess_machine_here(mem, times->n_calls > 0 ? times : NULL, machine));
    else
        TESS_TRY(tess_machine_load(mem, name, machine));
    if (price > 0)
        machine->cost.per_hour = price;
    return TESS_OK;
}

tess_status cli_machine_use_fp8(tess_machine *machine)
{
    TESS_CHECK(machine->compute.fp8_tflops > 0, TESS_E_INVALID,
               "--fp8-products: machine '%s' has no products in FP8: give compute.fp8_tflops in a file of its own",
               machine->machine.name);
    machine->fp8_products = true;
    return TESS_OK;
}
