/* `tessera chat`: talks with a model in the terminal, or through a pipe. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat_talk.h"
#include "cli/sampling_flags.h"
#include "train/text/chat_setup.h"

enum { USUAL_LENGTH = 8192, USUAL_ANSWER = 512 };

static const char commands_help[] = "/reset           forget what was said (not the system message)\n"
                                    "/system TEXT     set the system message; without TEXT: none\n"
                                    "/save FILE.jsonl append the conversation to FILE, as a line that training reads\n"
                                    "/quit            end, as Ctrl-D does; Ctrl-C ends an answer\n";

/* ---- Ctrl-C ---- */
/* The handler gets only the signal's number, so it reports the signal through this variable. */
static volatile sig_atomic_t interrupted;

static void interrupt(TESS_UNUSED int signal_number)
{
    interrupted = 1;
}

/* Installs the handler without SA_RESTART, so that an interrupt also ends the reading of a line. */
static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = interrupt};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

/* ---- Lines ---- */
/* Reads the next line without its end. Returns false at the end of input. A line that Ctrl-C interrupts is dropped. */
static bool read_line(bool terminal, char **line, size_t *room, size_t *size)
{
    for (;;) {
        interrupted = 0;
        if (terminal) {
            fputs("> ", stdout);
            fflush(stdout);
        }
        ssize_t n = getline(line, room, stdin);
        if (n < 0 && errno == EINTR && interrupted) {
            clearerr(stdin);
            putchar('\n');
            continue;
        }
        if (n < 0)
            return false;
        *size = (size_t)n - ((*line)[n - 1] == '\n');
        (*line)[*size] = '\0';
        return true;
    }
}

/* Returns the argument after the command `name`; NULL: the line is another command. */
static const char *argument_of(const char *line, const char *name)
{
    size_t n = strlen(name);
    if (strncmp(line, name, n) != 0 || (line[n] != '\0' && line[n] != ' '))
        return NULL;
    return line + n + strspn(line + n, " ");
}

static tess_status obey(chat_talk *talk, const char *line, bool *quit)
{
    const char *text;
    *quit = strcmp(line, "/quit") == 0;
    if (*quit)
        return TESS_OK;
    if (strcmp(line, "/reset") == 0)
        return chat_talk_reset(talk);
    if (strcmp(line, "/help") == 0) {
        fputs(commands_help, stderr);
        return TESS_OK;
    }
    if ((text = argument_of(line, "/system")) != NULL)
        return chat_talk_set_system(talk, text);
    text = argument_of(line, "/save");
    TESS_CHECK(text == NULL || text[0] != '\0', TESS_E_INVALID, "/save: name a file");
    if (text != NULL)
        return chat_talk_save(talk, text);
    return TESS_FAIL(TESS_E_INVALID, "'%.40s' is no command: /help lists them (a message may begin with a space)",
                     line);
}

/* Runs the conversation. At a terminal, an error is reported and the conversation continues. With a pipe, an error
 * ends it. */
static tess_status converse(chat_talk *talk, bool terminal)
{
    char *line = NULL;
    size_t room = 0, size;
    tess_status status = TESS_OK;
    for (bool quit = false; status == TESS_OK && !quit && read_line(terminal, &line, &room, &size);) {
        if (line[0] == '/')
            status = obey(talk, line, &quit);
        else if (strspn(line, " \t\r") < size)
            status = chat_talk_ask(talk, line, size);
        if (status == TESS_OK || !terminal)
            continue;
        fprintf(stderr, "%s\n", tess_error_message());
        tess_error_clear();
        status = TESS_OK;
    }
    free(line);
    if (terminal)
        putchar('\n');
    return status;
}

static void print_stats(const chat_talk *talk)
{
    const tess_generator_stats s = tess_generator_get_stats(talk->generator);
    fprintf(stderr, "{\"drawn\": %lld, \"prefilled\": %lld, \"shared\": %lld, \"peak_cache_bytes\": %.0f}\n",
            (long long)s.drawn, (long long)s.prefilled, (long long)s.shared,
            (double)s.peak_pages * (double)s.page_bytes);
}

static tess_status run_talk(chat_talk *talk, const char *system, bool stats)
{
    bool terminal = isatty(STDIN_FILENO) != 0;
    tess_status status = chat_talk_open(talk);
    if (status == TESS_OK && system != NULL)
        status = chat_talk_set_system(talk, system);
    if (status == TESS_OK && terminal)
        fprintf(stderr, "%s: /help lists commands\n", talk->m->folder);
    if (status == TESS_OK)
        status = converse(talk, terminal);
    if (status == TESS_OK && stats)
        print_stats(talk);
    chat_talk_close(talk);
    return status;
}

static tess_status need_template(const tess_chat_setup *chat, const char *folder)
{
    TESS_CHECK(chat->how.problem[0] == '\0', TESS_E_INVALID, "the chat template cannot be used: %s", chat->how.problem);
    TESS_CHECK(
        chat->chat != NULL, TESS_E_INVALID,
        "%s: no chat template that can be used (chat_template.jinja, or chat_template of tokenizer_config.json): "
        "it does not know turns. Name one with --chat-template, or fine-tune it on conversations with "
        "data.chat_template; `tessera generate` continues text",
        folder);
    return TESS_OK;
}

/* Chooses the length of the conversation. `asked` 0: not given. */
static tess_status find_length(const tess_model_config *config, int64_t asked, int64_t *length)
{
    int64_t most = tess_model_config_max_length(config);
    TESS_CHECK(asked <= most, TESS_E_INVALID, "--max-length: %lld; the model takes %lld", (long long)asked,
               (long long)most);
    *length = asked > 0 ? asked : most < USUAL_LENGTH ? most : USUAL_LENGTH;
    return TESS_OK;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    tess_model_folder m = {0};
    const char *device = NULL, *dtype_text = NULL, *adapter = NULL, *template_path = NULL, *system = NULL,
               *stats = NULL;
    int64_t max_length = 0, threads = 0;
    cli_sampling how;
    cli_flag flags[CLI_SAMPLING_FLAGS + 9] = {
        {"--system", "TEXT", "system message that begins the conversation", .text = &system},
        {"--chat-template", "PATH", "a .jinja file or a model's folder (MODEL_DIR)", .text = &template_path},
        {"--max-new-tokens", "N", "of an answer, at most (512)", .integer = &how.max_new_tokens, .min = 1,
         .max = 1 << 24},
        {"--max-length", "N", "tokens of a conversation with its answers (the model's, at most 8192)",
         .integer = &max_length, .min = 2, .max = 1 << 27},
        {"--stats", NULL,
         "a line of JSON on standard error at the end: tokens drawn, read and shared with the turn before",
         .text = &stats},
        {"--dtype", "TYPE", "float32 or bfloat16; default: what the files hold", .text = &dtype_text},
        {"--adapter", "DIR", "an adapter (LoRA) of the model, PEFT's or a run's", .text = &adapter},
        {"--device", "NAME", "where the model computes: cpu, far or cuda (cpu)", .text = &device},
        {"--threads", "N", "default: all cores", .integer = &threads, .min = 1, .max = 1024},
    };
    cli_sampling_flags(&how, flags + 9);
    int n = cli_parse(argc, argv, &cli_chat, flags, sizeof(flags) / sizeof(flags[0]));
    if (n != 1)
        return cli_misuse(&cli_chat, "name one model folder");

    tess_dtype dtype;
    tess_reporter reporter = {cli_print_line, NULL};
    tess_chat_setup chat = {0};
    tess_status status;
    chat_talk talk = {.mem = mem, .m = &m, .how = &chat.how, .sampling = &how.sampling, .stop = &interrupted};
    TESS_GOTO(cli_dtype("--dtype", dtype_text, false, &dtype), parsed);
    const tess_model_folder_options folder = {dtype, 0, (int)threads, device, adapter};
    TESS_GOTO(tess_model_folder_open(mem, argv[1], &folder, &reporter, &m), parsed);
    TESS_GOTO(tess_chat_setup_open(mem, template_path, argv[1], m.tokenizer, &chat), opened);
    TESS_GOTO(need_template(&chat, argv[1]), opened);
    TESS_GOTO(find_length(&m.config, max_length, &talk.length), opened);
    TESS_GOTO(cli_sampling_settle(&how, argv[1], USUAL_ANSWER, &m.config), opened);
    talk.max_new_tokens = how.max_new_tokens;
    catch_interrupts();
    status = run_talk(&talk, system, stats != NULL);
opened:
    tess_chat_setup_close(&chat);
    tess_model_folder_close(&m);
parsed:
    return cli_end(status);
}

const cli_command cli_chat = {
    "chat", "MODEL_DIR [options]",
    "talk to a fine-tuned model in the terminal\n\n"
    "Each line is a message, each answer is printed as it grows; on a pipe likewise, one line in, one "
    "answer out.\nThe model's chat template writes the conversation. Lines that begin with / are "
    "commands: /reset,\n/system TEXT, /save FILE.jsonl, /quit, /help.\n",
    .examples = "tessera chat out/places/chat/best\n"
                "tessera chat models/qwen --system 'Answer in one sentence.' --temperature 0\n"
                "tessera chat models/qwen --adapter out/lora/model",
    .run = run};
