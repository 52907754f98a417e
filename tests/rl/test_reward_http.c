/* Graders behind HTTP: answers, retries, limits, and servers that fail. */
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <signal.h>
#include <unistd.h>

#include "base/os/os.h"
#include "rl/reward/reward.h"
#include "support/test.h"

enum { N = 6 };

/* A reward model on loopback. The path says what it does with item "3": it answers all others with their number and a
 * half. */
static const char server_text[] =
    "import sys, json, time, os, socketserver, http.server\n"
    "tries = {}\n"
    "class Model(http.server.BaseHTTPRequestHandler):\n"
    "    protocol_version = 'HTTP/1.1'\n"
    "    def log_message(self, *a): pass\n"
    "    def say(self, text, code=200):\n"
    "        self.send_response(code)\n"
    "        self.send_header('Content-Length', str(len(text)))\n"
    "        self.end_headers()\n"
    "        self.wfile.write(text)\n"
    "    def do_POST(self):\n"
    "        text = self.rfile.read(int(self.headers['Content-Length']))\n"
    "        x, how = json.loads(text), self.path[1:]\n"
    "        i = x['response']\n"
    "        if i == '' and how.isdigit(): return self.say(b'', int(how))\n"
    "        if how.startswith('key'):\n"
    "            key = self.headers['Authorization'] or ''\n"
    "            if how == 'key-cut': return self.say(('x' * 45 + key).encode(), 401)\n"
    "            if (key, self.headers['X-Team']) != ('Bearer sk-0123456789', 'blue'):\n"
    "                return self.say(('wrong key: ' + key + self.path).encode(), 401)\n"
    "            how = 'good'\n"
    "        tries[how + i] = tries.get(how + i, 0) + 1\n"
    "        good = json.dumps(int(i) + 0.5).encode()\n"
    "        if set(x) != {'prompt', 'response', 'label'} or self.headers['Content-Type'] != 'application/json':\n"
    "            self.say(b'not the body of remote_rm', 400)\n"
    "        elif i != '3' or how == 'good': self.say(good)\n"
    "        elif how == 'object': self.say(b'{\"reward\": 3.5}')\n"
    "        elif how == 'parts': self.say(b'{\"reward\": {\"a\": 1, \"b\": 2.5}}')\n"
    "        elif how == 'null': self.say(b'null')\n"
    "        elif how == 'nan': self.say(b'NaN')\n"
    "        elif how == 'text': self.say(b'\"good\"')\n"
    "        elif how == 'missing': self.say(b'no such thing', 404)\n"
    "        elif how == 'busy': self.say(b'busy', 503) if tries[how + i] < 3 else self.say(good)\n"
    "        elif how == 'broken': self.say(b'broken', 500)\n"
    "        elif how == 'long': self.say(b'1' * (8 << 20))\n"
    "        elif how == 'cut': self.close_connection = True\n"
    "        elif how == 'hang': time.sleep(10000)\n"
    "        elif how == 'redirect':\n"
    "            self.send_response(302)\n"
    "            self.send_header('Location', 'file:///etc/passwd'); self.send_header('Content-Length', '0')\n"
    "            self.end_headers()\n"
    "        elif how == 'drip':\n"
    "            self.send_response(200); self.send_header('Content-Length', '1000'); self.end_headers()\n"
    "            while True: self.wfile.write(b'1'); self.wfile.flush(); time.sleep(0.3)\n"
    "class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):\n"
    "    daemon_threads = True\n"
    "    def handle_error(self, *a): pass\n"
    "    request_queue_size = 64\n"
    "server = Server(('127.0.0.1', 0), Model)\n"
    "with open(sys.argv[1] + '.new', 'w') as f: f.write(str(server.server_address[1]))\n"
    "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
    "server.serve_forever()\n";

static pid_t server;
static int port;

static void stop_server(void)
{
    if (server > 0) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    server = 0;
}

static void start_server(void)
{
    char path[300], file[300], *text;
    size_t size;
    setenv("no_proxy", "127.0.0.1", 1);
    snprintf(path, sizeof(path), "%s/server.py", test_folder());
    snprintf(file, sizeof(file), "%s/port", test_folder());
    EXPECT_OK(tess_os_write_atomic(path, server_text, sizeof(server_text) - 1));
    server = fork();
    if (server == 0) {
        execlp("python3", "python3", path, file, NULL);
        _exit(127);
    }
    atexit(stop_server);
    while (!tess_os_is_file(file)) {
        EXPECT(waitpid(server, NULL, WNOHANG) == 0);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    EXPECT_OK(tess_os_read(test_mem(), file, 64, &text, &size));
    port = atoi(text);
    tess_mem_free(test_mem(), text);
}

typedef struct outcome {
    tess_status status;
    char message[2048];
    tess_reward_result out[N];
    tess_reward_failures failures;
} outcome;

static const outcome *score(const char *how, tess_reward_options options)
{
    static outcome o;
    static const char *const numbers[N] = {"0", "1", "2", "3", "4", "5"};
    char url[100];
    tess_reward_item items[N];
    tess_rewarder *r;
    for (int i = 0; i < N; i++)
        items[i] = (tess_reward_item){.id = 20 + (uint64_t)i,
                                      .prompt = "p\xff",
                                      .prompt_size = 2,
                                      .response = numbers[i],
                                      .response_size = 1,
                                      .label = "l",
                                      .label_size = 1};
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/%s", port, how);
    options.kind = "http";
    options.url = url;
    options.workers = 3;
    options.timeout_s = options.timeout_s > 0 ? options.timeout_s : 60;
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    o.status = tess_rewarder_score(r, items, N, N, o.out);
    snprintf(o.message, sizeof(o.message), "%s", tess_error_message());
    tess_rewarder_failures(r, &o.failures);
    tess_rewarder_destroy(&r);
    return &o;
}

/* All items have their rewards but number 3, which failed with `why` (NULL: did not). */
static const outcome *expect_of(const char *how, tess_reward_options options, const char *why)
{
    options.max_failures = why != NULL ? 0.2 : 0;
    const outcome *o = score(how, options);
    if (o->status != TESS_OK)
        test_fail(__FILE__, __LINE__, "%s: the call failed: %s", how, o->message);
    for (int i = 0; i < N; i++) {
        if (i == 3 && why != NULL) {
            EXPECT(!o->out[i].scored);
            EXPECT_CONTAINS(o->failures.newest, why);
            EXPECT_CONTAINS(o->failures.newest, "grader 'http', item 23");
        } else if (!o->out[i].scored || o->out[i].value != i + 0.5) {
            test_fail(__FILE__, __LINE__, "%s: item %d has %g: %s", how, i, o->out[i].value, o->out[i].why);
        }
    }
    return o;
}

static void numbers_objects_parts_and_nulls_are_understood(void)
{
    start_server();
    expect_of("good", (tess_reward_options){0}, NULL);
    expect_of("object", (tess_reward_options){0}, NULL);
    const outcome *o = expect_of("parts", (tess_reward_options){0}, NULL);
    EXPECT_INT(o->out[3].n_parts, 2);
    EXPECT_TEXT(o->out[3].part[1].name, "b");
    EXPECT_TEXT(o->out[2].part[0].name, "http");
    o = score("null", (tess_reward_options){0});
    EXPECT_OK(o->status);
    EXPECT(!o->out[3].scored && o->out[3].why[0] == '\0' && o->out[4].value == 4.5);
}

static void wrong_answers_fail_their_item_alone(void)
{
    start_server();
    expect_of("nan", (tess_reward_options){0}, "not JSON (which knows finite numbers alone): 'NaN'");
    expect_of("text", (tess_reward_options){0}, "the reward 'http' is no number: '\"good\"'");
    expect_of("missing", (tess_reward_options){0}, "HTTP status 404: 'no such thing'");
    expect_of("redirect", (tess_reward_options){0},
              "HTTP status 302: 'file:///etc/passwd'; redirections are not followed");
    expect_of("long", (tess_reward_options){0}, "an answer of more than 65536 bytes");
    expect_of("cut", (tess_reward_options){.retries = 1}, "after 2 tries: http://127.0.0.1");
    expect_of("hang", (tess_reward_options){.retries = -1, .timeout_s = 3}, "imed out");
    expect_of("drip", (tess_reward_options){.retries = -1, .timeout_s = 3}, "imed out");
}

static void retries(void)
{
    start_server();
    expect_of("busy", (tess_reward_options){.retries = 2}, NULL);
    expect_of("broken", (tess_reward_options){.retries = 2}, "after 3 tries: http://127.0.0.1");
    const outcome *o = score("broken", (tess_reward_options){.retries = 0});
    EXPECT_INT(o->status, TESS_E_INVALID);
    EXPECT(strstr(o->message, "tries") == NULL);
    EXPECT_CONTAINS(o->message, "1 of 6 rewards failed, reward.max_failures allows 0 of them; grader 'http', item 23");
    EXPECT_CONTAINS(o->message, "/broken: HTTP status 500: 'broken'");
}

static tess_reward_options keyed(const tess_text_list *names, const char *file)
{
    return (tess_reward_options){.header_env = names, .header_file = file};
}

static void headers_are_sent_and_secrets_are_not_shown(void)
{
    static const char file[] = "# the team's\n\nX-Team:  blue\r\n";
    char path[400];
    char *name = "TESS_TEST_HEADER";
    const tess_text_list names = {1, &name};
    start_server();
    snprintf(path, sizeof(path), "%s/headers", test_folder());
    EXPECT_OK(tess_os_write_atomic(path, file, sizeof(file) - 1));
    setenv("TESS_TEST_HEADER", "Authorization: Bearer sk-0123456789", 1);
    expect_of("key", keyed(&names, path), NULL);
    /* A server may repeat what it was sent, and the URL may hold a key, too. */
    const outcome *o = score("key?token=hunter2hunter2", keyed(&names, ""));
    EXPECT_INT(o->status, TESS_E_INVALID);
    EXPECT_CONTAINS(o->message, "/key?***: HTTP status 401: 'wrong key: ***/key?token=***'; it wants a key");
    EXPECT(strstr(o->message, "hunter2") == NULL && strstr(o->message, "0123456789") == NULL);
    EXPECT(strstr(o->out[0].why, "hunter2") == NULL && strstr(o->failures.newest, "0123456789") == NULL);
    o = score("key-cut", keyed(&names, "")); /* the answer is quoted up to the middle of the key */
    EXPECT_CONTAINS(o->message, "xxx***...'");
    EXPECT(strstr(o->message, "sk-") == NULL);
}

static void expect_refused_headers(const tess_text_list *names, const char *file, const char *text)
{
    tess_rewarder *r;
    tess_reward_options options = keyed(names, file);
    options.kind = "http";
    options.url = "http://name:hunter2hunter2@127.0.0.1/";
    EXPECT_FAILS(tess_rewarder_create(test_mem(), &options, &r), TESS_E_INVALID, text);
    EXPECT(strstr(tess_error_message(), "sk-01") == NULL && strstr(tess_error_message(), "hunter2") == NULL);
}

static void headers_that_are_none_are_refused_without_showing_them(void)
{
    static const char wrong[] = "X-Team: blue\nsk-0123456789\n";
    char path[400];
    char *name = "TESS_TEST_HEADER";
    const tess_text_list names = {1, &name};
    snprintf(path, sizeof(path), "%s/headers", test_folder());
    EXPECT_OK(tess_os_write_atomic(path, wrong, sizeof(wrong) - 1));
    expect_refused_headers(NULL, path, "line 2 is no header: expected Name: value");
    setenv("TESS_TEST_HEADER", "sk-0123456789", 1);
    expect_refused_headers(&names, "", "TESS_TEST_HEADER: line 1 is no header");
    unsetenv("TESS_TEST_HEADER");
    expect_refused_headers(&names, "", "the variable TESS_TEST_HEADER is not set");
    name = "Authorization: Bearer sk-0123456789";
    expect_refused_headers(&names, "", "names of variables, not the headers");
}

static tess_status check_of(const char *how, int64_t retries)
{
    char url[100];
    tess_rewarder *r;
    snprintf(url, sizeof(url), "http://name:hunter2hunter2@127.0.0.1:%d/%s", port, how);
    const tess_reward_options options = {.kind = "http", .url = url, .retries = retries, .timeout_s = 60};
    EXPECT_OK(tess_rewarder_create(test_mem(), &options, &r));
    tess_status status = tess_rewarder_check(r);
    tess_rewarder_destroy(&r);
    EXPECT(strstr(tess_error_message(), "hunter2") == NULL);
    return status;
}

static void what_no_request_can_pass_is_known_before_the_first(void)
{
    start_server();
    static const char *const tolerated[] = {"200", "400", "422", "429", "500", "503", "cut"};
    for (size_t i = 0; i < sizeof(tolerated) / sizeof(tolerated[0]); i++)
        EXPECT_OK(check_of(tolerated[i], 0));
    EXPECT_FAILS(check_of("401", 0), TESS_E_INVALID, "HTTP status 401: ''; it wants a key");
    EXPECT_FAILS(check_of("404", 0), TESS_E_INVALID, "HTTP status 404: ''; there is no reward model at this path");
    EXPECT_FAILS(check_of("307", 0), TESS_E_INVALID, "HTTP status 307: ''; redirections are not followed");
    stop_server();
    EXPECT_FAILS(check_of("200", 1), TESS_E_INVALID, "reward.url: http://***@127.0.0.1:");
    EXPECT_CONTAINS(tess_error_message(), "Failed to connect");
}

static void a_reward_model_that_is_not_there_stops_the_call(void)
{
    start_server();
    stop_server();
    const outcome *o = score("good", (tess_reward_options){.retries = 1, .max_failures = 0.5});
    EXPECT_INT(o->status, TESS_E_INVALID);
    EXPECT_CONTAINS(o->message, "after 2 tries");
    EXPECT_CONTAINS(o->message, "Failed to connect");
    EXPECT_INT(o->failures.n_failed, 4);
}

static void built_without_libcurl(void)
{
    tess_rewarder *r;
    EXPECT_FAILS(
        tess_rewarder_create(test_mem(), &(tess_reward_options){.kind = "http", .url = "http://127.0.0.1/"}, &r),
        TESS_E_UNSUPPORTED, "install libcurl4-openssl-dev");
}

static const test_case with_curl[] = {
    CASE(numbers_objects_parts_and_nulls_are_understood),
    CASE(wrong_answers_fail_their_item_alone),
    {"what_may_do_better_is_tried_again", retries},
    CASE(a_reward_model_that_is_not_there_stops_the_call),
    CASE(headers_are_sent_and_secrets_are_not_shown),
    CASE(headers_that_are_none_are_refused_without_showing_them),
    CASE(what_no_request_can_pass_is_known_before_the_first),
};
static const test_case without_curl[] = {{"without_libcurl_http_is_refused_by_name", built_without_libcurl}};

int main(int argc, char **argv)
{
    tess_mem *mem;
    tess_rewarder *r;
    if (tess_mem_create(&mem) != TESS_OK)
        return 1;
    bool curl =
        tess_rewarder_create(mem, &(tess_reward_options){.kind = "http", .url = "http://127.0.0.1/"}, &r) == TESS_OK;
    if (curl)
        tess_rewarder_destroy(&r);
    tess_mem_destroy(&mem);
    return curl ? test_main(argc, argv, with_curl, sizeof(with_curl) / sizeof(with_curl[0]))
                : test_main(argc, argv, without_curl, 1);
}
