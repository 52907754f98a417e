#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/launch.h"

static tess_status choose_mpi(const char *text, tess_mpi *mpi)
{
    *mpi = TESS_MPI_ANY;
    if (text == NULL)
        return TESS_OK;
    bool open_mpi = strcmp(text, "openmpi") == 0;
    TESS_CHECK(open_mpi || strcmp(text, "mpich") == 0, TESS_E_INVALID, "--mpi: '%s': choose openmpi or mpich", text);
    *mpi = open_mpi ? TESS_MPI_OPEN_MPI : TESS_MPI_MPICH;
    return TESS_OK;
}

static tess_status read_hosts(const char *list, const char *file, tess_launch_hosts *hosts)
{
    tess_mem *mem = NULL;
    if (list != NULL)
        TESS_TRY_CTX(tess_launch_hosts_parse(list, hosts), "--hosts");
    if (file == NULL)
        return TESS_OK;
    TESS_TRY(tess_mem_create(&mem));
    tess_status status = tess_launch_hosts_read(mem, file, hosts);
    tess_mem_destroy(&mem);
    return status;
}

tess_status cli_own_path(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    TESS_CHECK(n > 0, TESS_E_IO, "/proc/self/exe: %s", strerror(errno));
    path[n] = '\0';
    return TESS_OK;
}

tess_status cli_hosts_line(const tess_launch_hosts *hosts, tess_mpi *mpi, char **arguments, tess_launch_line *line)
{
    char mpirun[4096], program[4096];
    TESS_TRY(tess_launch_find_mpi(getenv("PATH"), mpi, mpirun, sizeof(mpirun)));
    TESS_TRY(cli_own_path(program, sizeof(program)));
    tess_launch_request request = {.hosts = hosts,
                                   .mpi = *mpi,
                                   .mpirun = mpirun,
                                   .agent = getenv(CLI_LAUNCH_AGENT),
                                   .root = geteuid() == 0,
                                   .environment = environ,
                                   .program = program,
                                   .arguments = arguments};
    return tess_launch_line_make(&request, line);
}

tess_status cli_hosts_run(const tess_launch_line *line, const tess_launch_watch *watch, tess_launch_line_end *end)
{
    static char quoted[sizeof(line->text) * 2];
    tess_launch_line_quote(line, quoted, sizeof(quoted));
    fprintf(stderr, "%s\n", quoted);
    TESS_TRY(tess_launch_line_run(line, watch, end));
    if (end->lost_host)
        fprintf(stderr,
                "tessera: mpirun has lost touch with a host and ended the job: it is down, or the link is cut\n");
    return TESS_OK;
}

static int show(const tess_launch_line *line)
{
    static char quoted[sizeof(line->text) * 2];
    tess_launch_line_quote(line, quoted, sizeof(quoted));
    puts(quoted);
    return CLI_OK;
}

static int start(cli_hosts *hosts, int argc, char **argv, bool dry)
{
    static tess_launch_line line;
    static tess_config config;
    tess_launch_line_end end;
    if (!dry && cli_launch_trains(argc, argv, &config))
        return cli_launch_train(hosts, &config, argc, argv);
    tess_status status = cli_hosts_line(&hosts->hosts, &hosts->mpi, argv, &line);
    if (status == TESS_OK && dry)
        return show(&line);
    if (status == TESS_OK)
        status = cli_hosts_run(&line, &(tess_launch_watch){.mpi = hosts->mpi}, &end);
    return status == TESS_OK ? end.exit_code : cli_fail(status);
}

static int run(int argc, char **argv)
{
    static cli_hosts hosts;
    const char *list = NULL, *file = NULL, *mpi_name = NULL, *dry = NULL;
    const cli_flag flags[] = {{"--hosts", "LIST", "hosts and ranks on each: h1:4,h2:4", &list},
                              {"--hostfile", "FILE", "the same, one host a line: h1:4, or h1 slots=4", &file},
                              {"--mpi", "NAME", "openmpi or mpich (what `mpirun` is)", &mpi_name},
                              {"--dry-run", NULL, "print the mpirun line and stop", &dry}};
    int n = cli_parse(argc, argv, &cli_launch, flags, 4);
    if (n < 0)
        return n == -1 ? CLI_OK : CLI_BAD_INPUT;
    if (list == NULL && file == NULL)
        return cli_misuse(&cli_launch, "name the hosts: --hosts h1:4,h2:4 or --hostfile FILE");
    if (n == 0)
        return cli_misuse(&cli_launch, "name what to run: -- train CONFIG.yaml");
    argv[n + 1] = NULL;
    tess_status status = choose_mpi(mpi_name, &hosts.mpi);
    if (status == TESS_OK)
        status = read_hosts(list, file, &hosts.hosts);
    return status == TESS_OK ? start(&hosts, n, argv + 1, dry != NULL) : cli_fail(status);
}

const cli_command cli_launch = {"launch", "--hosts h1:4,h2:4 [--dry-run] -- train CONFIG.yaml [ARGUMENTS ...]",
                                "start a command as ranks on several hosts, with mpirun", run};
