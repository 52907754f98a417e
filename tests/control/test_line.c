/* The mpirun line of `tessera launch`: lists of hosts, the options of both MPIs, quoting. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"
#include "control/launch/mpirun/launch_line.h"
#include "control/launch/node/node_launch.h"
#include "support/test.h"

static tess_launch_hosts hosts;

static void expect_refused(const char *text, const char *needle)
{
    hosts.n = 0;
    EXPECT_FAILS(tess_launch_hosts_parse(text, &hosts), TESS_E_INVALID, needle);
}

static void lists_of_hosts_are_read(void)
{
    EXPECT_OK(tess_launch_hosts_parse("h1:4,node-2.cluster:512,h3", &hosts));
    EXPECT_INT(hosts.n, 3);
    EXPECT_TEXT(hosts.hosts[1].name, "node-2.cluster");
    EXPECT_INT(hosts.hosts[0].slots, 4);
    EXPECT_INT(hosts.hosts[1].slots, 512);
    EXPECT_INT(hosts.hosts[2].slots, 1);
}

static void bad_entries_are_named(void)
{
    expect_refused("h1:4,h2:x", "h2:x: slots must be a number from 1 to 1048576");
    expect_refused("h1:", "h1:: slots must be");
    expect_refused("h1:0", "h1:0: slots must be");
    expect_refused("h1:1048577", "h1:1048577: slots must be");
    expect_refused("h1:4 ", "slots must be");
    expect_refused("h1:99999999999999999999", "slots must be");
    expect_refused("h1:1,h2:1,h1:2", "h1:2: host 'h1' is named twice");
    expect_refused("", "is empty");
    expect_refused("h1,", "is empty");
    expect_refused(":4", "'' is no host name");
    expect_refused("-x:4", "'-x' is no host name");
    expect_refused("a;rm:4", "'a;rm' is no host name");
}

static void write_hosts(char path[512], const char *text)
{
    EXPECT_OK(tess_os_join(path, 512, test_folder(), "hosts"));
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
    hosts.n = 0;
}

static void files_of_hosts_are_read(void)
{
    char path[512];
    write_hosts(path, "# ours\n\nh1 slots=4\n  h2:2 # the small one\r\nh3");
    EXPECT_OK(tess_launch_hosts_read(test_mem(), path, &hosts));
    EXPECT_INT(hosts.n, 3);
    EXPECT_INT(hosts.hosts[0].slots, 4);
    EXPECT_TEXT(hosts.hosts[1].name, "h2");
    EXPECT_INT(hosts.hosts[1].slots, 2);
    write_hosts(path, "h5\nh6 slots=many\n");
    EXPECT_FAILS(tess_launch_hosts_read(test_mem(), path, &hosts), TESS_E_INVALID,
                 "hosts, line 2: h6 slots=many: slots must");
    write_hosts(path, "# none\n");
    EXPECT_FAILS(tess_launch_hosts_read(test_mem(), path, &hosts), TESS_E_INVALID, "names no host");
}

static char *some_variables[] = {"HOME=/root",
                                 "TESSERA_IFNAME=eth0",
                                 "TESSERA_RANK=3",
                                 "LD_LIBRARY_PATH=/opt/lib",
                                 "UCX_TLS=tcp",
                                 "TESSERA_LAUNCH_AGENT=/x",
                                 NULL};
static char *no_variables[] = {"HOME=/root", NULL};

static const char *line_of(tess_launch_request request)
{
    static tess_launch_line line;
    static char text[8192];
    tess_buffer quoted = {.mem = test_mem()};
    EXPECT_OK(tess_launch_hosts_parse("h1:2,h2:2", &hosts));
    request.hosts = &hosts;
    request.program = "/usr/bin/tessera";
    request.arguments = (char *[]){"train", "my config.yaml", "x='y'", "", NULL};
    EXPECT_OK(tess_launch_line_make(&request, &line));
    EXPECT(line.words[line.n] == NULL);
    EXPECT_OK(tess_launch_words_quote(line.words, line.n, &quoted));
    snprintf(text, sizeof(text), "%s", quoted.data);
    tess_buffer_free(&quoted);
    return text;
}

static void open_mpi_gets_its_words(void)
{
    tess_launch_request request = {.mpi = TESS_MPI_OPEN_MPI, .mpirun = "/usr/bin/mpirun", .environment = no_variables};
    EXPECT_TEXT(line_of(request), "/usr/bin/mpirun -q --map-by slot --bind-to none --mca oob_tcp_keepalive_time 20 "
                                  "--mca oob_tcp_keepalive_intvl 5 --mca oob_tcp_keepalive_probes 4 -np 4 "
                                  "--host h1:2,h2:2 /usr/bin/tessera train 'my config.yaml' 'x='\\''y'\\''' ''");
}

static void open_mpi_is_told_what_it_needs(void)
{
    tess_launch_request request = {.mpi = TESS_MPI_OPEN_MPI,
                                   .mpirun = "mpirun",
                                   .environment = some_variables,
                                   .root = true,
                                   .agent = "/run/agent"};
    EXPECT_CONTAINS(line_of(request), " --allow-run-as-root --mca plm_rsh_agent /run/agent "
                                      "-x TESSERA_IFNAME -x LD_LIBRARY_PATH -x UCX_TLS -np 4 ");
}

static void mpich_gets_its_words(void)
{
    tess_launch_request request = {
        .mpi = TESS_MPI_MPICH, .mpirun = "mpirun.mpich", .environment = some_variables, .root = true, .agent = "/a"};
    EXPECT_CONTAINS(line_of(request), "mpirun.mpich -bind-to none -launcher ssh -launcher-exec /a "
                                      "-genvnone -genv TESSERA_IFNAME eth0 -genv LD_LIBRARY_PATH /opt/lib "
                                      "-genv UCX_TLS tcp -n 4 -hosts h1:2,h2:2 ");
}

static void mpich_carries_nothing_when_nothing_is_set(void)
{
    tess_launch_request request = {.mpi = TESS_MPI_MPICH, .mpirun = "mpirun", .environment = no_variables};
    EXPECT_CONTAINS(line_of(request), "mpirun -bind-to none -genvnone -n 4 ");
}

static void too_many_words_are_refused(void)
{
    static tess_launch_line line;
    static char *words[LAUNCH_MOST_WORDS + 1];
    for (int i = 0; i < LAUNCH_MOST_WORDS; i++)
        words[i] = "w";
    EXPECT_OK(tess_launch_hosts_parse("h1:2", &hosts));
    tess_launch_request request = {.hosts = &hosts,
                                   .mpi = TESS_MPI_MPICH,
                                   .mpirun = "mpirun",
                                   .environment = no_variables,
                                   .program = "tessera",
                                   .arguments = words};
    EXPECT_FAILS(tess_launch_line_make(&request, &line), TESS_E_INVALID, "too long");
}

/* A folder for PATH with a program, and a link to it (NULL: none). */
static const char *folder_with(const char *program, const char *link)
{
    char path[512], at[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), program));
    EXPECT_OK(tess_os_write_atomic(path, "#!/bin/sh\n", 10));
    EXPECT_INT(chmod(path, 0755), 0);
    if (link != NULL) {
        EXPECT_OK(tess_os_join(at, sizeof(at), test_folder(), link));
        EXPECT_INT(symlink(path, at), 0);
    }
    return test_folder();
}

static void mpirun_is_known_by_where_it_leads(void)
{
    char mpirun[1024];
    tess_mpi mpi = TESS_MPI_ANY;
    EXPECT_OK(tess_launch_find_mpi(folder_with("mpiexec.hydra", "mpirun"), &mpi, mpirun, sizeof(mpirun)));
    EXPECT_INT(mpi, TESS_MPI_MPICH);
    EXPECT_CONTAINS(mpirun, "/mpirun");
    mpi = TESS_MPI_OPEN_MPI;
    EXPECT_FAILS(tess_launch_find_mpi(test_folder(), &mpi, mpirun, sizeof(mpirun)), TESS_E_NOT_FOUND, "openmpi-bin");
    EXPECT_OK(tess_launch_find_mpi(folder_with("mpirun.openmpi", NULL), &mpi, mpirun, sizeof(mpirun)));
    EXPECT_CONTAINS(mpirun, "/mpirun.openmpi");
}

static void without_an_mpi_the_package_is_named(void)
{
    char mpirun[1024];
    tess_mpi mpi = TESS_MPI_ANY;
    EXPECT_FAILS(tess_launch_find_mpi("/nowhere:", &mpi, mpirun, sizeof(mpirun)), TESS_E_NOT_FOUND,
                 "no mpirun in PATH: install the Debian package openmpi-bin or mpich");
    EXPECT_FAILS(tess_launch_find_mpi(folder_with("mpirun", NULL), &mpi, mpirun, sizeof(mpirun)), TESS_E_NOT_FOUND,
                 "neither Open MPI's nor MPICH's");
}

static void the_words_of_a_node_are_read(void)
{
    tess_launch_node node = {.n_nodes = 3};
    EXPECT_OK(tess_node_parse_master("h1:29400", &node));
    EXPECT_TEXT(node.master, "h1");
    EXPECT_INT(node.port, 29400);
    EXPECT_OK(tess_node_parse_master("[fd00::2]:1", &node));
    EXPECT_TEXT(node.master, "fd00::2");
    static const char *const bad[] = {"h1", ":29400", "h1:", "h1:0", "h1:65535", "h1:29400x", "[]:1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_FAILS(tess_node_parse_master(bad[i], &node), TESS_E_INVALID, "write it like h1:29400");
    EXPECT_OK(tess_node_parse_ranks("4", &node));
    EXPECT_INT(node.n_ranks[2], 4);
    EXPECT_OK(tess_node_parse_ranks("3,1,2", &node));
    EXPECT_INT(node.n_ranks[0] * 100 + node.n_ranks[1] * 10 + node.n_ranks[2], 312);
    EXPECT_FAILS(tess_node_parse_ranks("3,1", &node), TESS_E_INVALID, "has 2 numbers, but --nnodes is 3");
    EXPECT_FAILS(tess_node_parse_ranks("3,1,2,1", &node), TESS_E_INVALID, "has more numbers than --nnodes (3)");
    EXPECT_FAILS(tess_node_parse_ranks("0", &node), TESS_E_INVALID, "like 4 or 3,1");
    EXPECT_FAILS(tess_node_parse_ranks("", &node), TESS_E_INVALID, "like 4 or 3,1");
}

static const test_case cases[] = {
    CASE(lists_of_hosts_are_read),
    CASE(bad_entries_are_named),
    CASE(files_of_hosts_are_read),
    CASE(open_mpi_gets_its_words),
    CASE(open_mpi_is_told_what_it_needs),
    CASE(mpich_gets_its_words),
    CASE(mpich_carries_nothing_when_nothing_is_set),
    CASE(too_many_words_are_refused),
    CASE(mpirun_is_known_by_where_it_leads),
    CASE(without_an_mpi_the_package_is_named),
    CASE(the_words_of_a_node_are_read),
};
TEST_MAIN(cases)
