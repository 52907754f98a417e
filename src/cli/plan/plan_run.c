#include "cli/plan/plan_run.h"

#include "engine/model/model_file.h"

tess_status cli_plan_run_load(cli_plan_run *run, char *const *words, int n_words)
{
    const char *path = tess_config_take_path(&words, &n_words);
    TESS_TRY(tess_config_load(run->mem, path, words, n_words, &run->config));
    return tess_config_load_model(&run->config, NULL, &run->model);
}

tess_status cli_plan_run_on(cli_plan_run *run, const char *machine, const char *cache, double price)
{
    if (cli_machine_is_here(machine))
        TESS_TRY(cli_load_times(run->mem, cache, &run->times, run->times_path));
    TESS_TRY(cli_load_machine(run->mem, machine, price, &run->times, &run->machine));
    return tess_planner_create(run->mem, &run->planner);
}

tess_status cli_plan_run_fix_batch(cli_plan_run *run, int n_ranks)
{
    TESS_AUTO(tess_config_free) tess_config checked = {0};
    tess_config_assume_batch(&run->config);
    TESS_TRY(tess_config_copy(&run->config, &checked));
    TESS_TRY(tess_config_check_step(&checked, n_ranks));
    run->config.training.global_batch_size = checked.training.global_batch_size;
    return TESS_OK;
}

tess_plan_request cli_plan_run_request(const cli_plan_run *run, int n_ranks)
{
    return (tess_plan_request){
        .config = &run->config, .model = &run->model, .machine = &run->machine, .n_ranks = n_ranks};
}

void cli_plan_run_end(cli_plan_run *run)
{
    tess_planner_destroy(&run->planner);
    tess_kernel_times_free(&run->times);
    tess_config_free(&run->config);
}
