/* `tessera dash`: the live page of runs, in a browser. */
#include <signal.h>
#include <stdio.h>

#include "cli/cli.h"
#include "doctor/dash/dash.h"
#include "rl/rl_page_samples.h"

/* Answers until a signal asks for the end. The server's thread inherits the blocked signals. */
static tess_status serve(tess_mem *mem, tess_dash *dash, const char *token, int port)
{
    const tess_web_server_options options = {
        .address = {.host = "127.0.0.1", .port = port, .is_loopback = true}, .answer = tess_dash_answer, .self = dash};
    tess_web_server *server = NULL;
    sigset_t ends;
    int signal;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    TESS_TRY(tess_web_server_start(mem, &options, &server));
    port = tess_web_server_port(server);
    printf("http://127.0.0.1:%d/%s/\n", port, token);
    fflush(stdout);
    fprintf(
        stderr,
        "Open this address in a browser; ctrl-C ends it. From another machine, first: ssh -L %d:127.0.0.1:%d HOST\n",
        port, port);
    sigwait(&ends, &signal);
    tess_web_server_stop(&server);
    return TESS_OK;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    char token[TESS_DASH_TOKEN];
    int64_t port = 0;
    const cli_flag flags[] = {
        {"--port", "PORT", "port to listen on (any free one)", .integer = &port, .min = 0, .max = 65535}};
    const int n = cli_parse(argc, argv, &cli_dash, flags, sizeof(flags) / sizeof(flags[0]));
    tess_dash *dash = NULL;
    if (n < 1)
        return cli_misuse(&cli_dash, "name the folder of a run");
    const tess_page_options options = {.samples = rl_page_samples, .patience_s = 2};
    tess_status status = tess_dash_make_token(token);
    if (status == TESS_OK)
        status = tess_dash_open(mem, (const char *const *)(argv + 1), n, token, &options, &dash);
    if (status == TESS_OK)
        status = serve(mem, dash, token, (int)port);
    tess_dash_close(&dash);
    return cli_end(status);
}

const cli_command cli_dash = {
    "dash",
    "FOLDER ... [--port PORT]",
    "watch runs in a browser: curves, memory, ranks, who waits for whom\n"
    "FOLDER is a run's job.dump_folder, also of one that has ended or begins later. The page listens on this machine\n"
    "only, needs the token in its address, and only reads.",
    .exit_codes = "0 ended by ctrl-C; 1 failed; 2 bad input",
    .examples = "tessera dash out/kjv\n"
                "tessera dash out/lr1 out/lr2 out/lr3\n"
                "tessera dash out/kjv --port 8080",
    .run = run};
