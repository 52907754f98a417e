#include "cli/doctor.h"

#include <stdio.h>

static const struct {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} doctors[] = {
    {"log", "what the texts of a log mean, and which rank never came", cli_doctor_log},
    {"env", "variables of NCCL, PyTorch, MPI, UCX, CUDA: what they do, which are void", cli_doctor_env},
    {"timers", "every timer of a job, and whether their order holds", cli_doctor_timers},
    {"preflight", "machines, ranks and configuration before a job", cli_doctor_preflight},
};
enum { N_DOCTORS = sizeof(doctors) / sizeof(doctors[0]) };

static void print_list(FILE *out)
{
    fprintf(out, "usage: tessera doctor %s\n%s\n", cli_doctor.arguments, cli_doctor.help);
    for (int i = 0; i < N_DOCTORS; i++)
        fprintf(out, "  tessera doctor %-10s %s\n", doctors[i].name, doctors[i].help);
    fputs("tessera doctor SUBCOMMAND --help says more.\n", out);
}

static int run(int argc, char **argv)
{
    const char *names[N_DOCTORS];
    for (int i = 0; i < N_DOCTORS; i++)
        names[i] = doctors[i].name;
    int doctor = cli_choose(argc, argv, names, N_DOCTORS, print_list);
    if (doctor < 0)
        return cli_unchosen(doctor);
    if (doctor < N_DOCTORS)
        return doctors[doctor].run(argc - 1, argv + 1);
    char hint[CLI_HINT];
    return cli_misuse(&cli_doctor, "no doctor '%.60s'%s", argv[1], cli_hint("", argv[1], names, N_DOCTORS, hint));
}

const cli_command cli_doctor = {"doctor", "SUBCOMMAND ...", "before, during and after a run: logs, variables, machines",
                                run};
