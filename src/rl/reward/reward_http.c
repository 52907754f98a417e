#include "rl/reward/reward_http.h"

#include "rl/reward/reward_headers.h"
#include "rl/reward/reward_impl.h"

#ifndef TESS_CURL

tess_status reward_http_create(tess_mem *mem, const tess_reward_options *options, reward_http **http)
{
    (void)mem, (void)options, (void)http;
    return TESS_FAIL(TESS_E_UNSUPPORTED,
                     "reward.kind: 'http' is not possible, since tessera was built without libcurl: "
                     "install libcurl4-openssl-dev and build again");
}

tess_status reward_http_check(TESS_UNUSED reward_http *h)
{
    return TESS_FAIL(TESS_E_UNSUPPORTED, "built without libcurl");
}

tess_status reward_http_score(reward_http *http, struct reward_call *call, double weight)
{
    (void)http, (void)call, (void)weight;
    return TESS_FAIL(TESS_E_UNSUPPORTED, "built without libcurl");
}

void reward_http_destroy(reward_http **http)
{
    *http = NULL;
}

#else

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/core/variables.h"

#include "base/os/os.h"
#include "rl/reward/reward_curl.h"

enum {
    MOST_REQUESTS = 1024,
    MOST_WAIT_MS = 1000,
    CHECK_MS = 10000,
    GOOD = 200,
    REDIRECTION = 300,
    CLIENT_FAILURE = 400,
    UNAUTHORIZED = 401,
    FORBIDDEN = 403,
    NOT_FOUND = 404,
    NOT_ALLOWED = 405,
    PROXY_UNAUTHORIZED = 407,
    TOO_MANY = 429,
    SERVER_FAILURE = 500
};
static const double FIRST_PAUSE_S = 0.1, LONGEST_PAUSE_S = 30;

/* A slot for one request at a time, which keeps its connection. */
typedef struct http_request {
    reward_http *http;
    CURL *curl;
    int64_t item; /* -1: none */
    int tries;
    double again_s; /* time of the next try; 0: a request is running */
    char *body;     /* malloc'd by jansson */
    tess_buffer answer;
    bool too_long;
    char error[CURL_ERROR_SIZE];
} http_request;

struct reward_http {
    tess_mem *mem;
    char *url;
    int n;
    int64_t retries;
    long timeout_ms; /* limit for one try */
    size_t max_answer_bytes;
    CURLM *multi;
    reward_headers own; /* the user's headers, which contain keys */
    struct curl_slist *headers;
    http_request *request;
};

/* ---- Create ---- */
static size_t receive(char *data, size_t size, size_t n, void *self)
{
    http_request *request = self;
    request->too_long = request->answer.size + size * n > request->http->max_answer_bytes;
    if (request->too_long || tess_buffer_append(&request->answer, data, size * n) != TESS_OK)
        return CURL_WRITEFUNC_ERROR;
    return size * n;
}

static tess_status prepare_request(reward_http *h, http_request *request)
{
    *request = (http_request){.http = h, .item = -1, .answer.mem = h->mem, .curl = reward_curl.easy_init()};
    TESS_CHECK(request->curl != NULL, TESS_E_NOMEM, "no memory for requests to %s", h->url);
    bool set = reward_curl.easy_setopt(request->curl, CURLOPT_URL, h->url) == CURLE_OK &&
               reward_curl.easy_setopt(request->curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
               reward_curl.easy_setopt(request->curl, CURLOPT_HTTPHEADER, h->headers) == CURLE_OK &&
               reward_curl.easy_setopt(request->curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
               reward_curl.easy_setopt(request->curl, CURLOPT_TIMEOUT_MS, h->timeout_ms) == CURLE_OK &&
               reward_curl.easy_setopt(request->curl, CURLOPT_WRITEFUNCTION, receive) == CURLE_OK &&
               reward_curl.easy_setopt(request->curl, CURLOPT_WRITEDATA, request) == CURLE_OK &&
               reward_curl.easy_setopt(request->curl, CURLOPT_ERRORBUFFER, request->error) == CURLE_OK &&
               reward_curl.easy_setopt(request->curl, CURLOPT_PRIVATE, request) == CURLE_OK;
    TESS_CHECK(set, TESS_E_UNSUPPORTED, "this libcurl (%s) cannot do what requests need", reward_curl.version());
    return TESS_OK;
}

static tess_status add_header(reward_http *h, const char *line)
{
    struct curl_slist *longer = reward_curl.slist_append(h->headers, line);
    TESS_CHECK(longer != NULL, TESS_E_NOMEM, "no memory for requests to %s", h->url);
    h->headers = longer;
    return TESS_OK;
}

static tess_status read_headers(reward_http *h, const tess_reward_options *o)
{
    h->own.lines.mem = h->mem;
    if (o->header_file[0] != '\0') {
        TESS_AUTO(tess_mem_drop) char *text = NULL;
        size_t size;
        TESS_TRY_CTX(tess_os_read(h->mem, o->header_file, REWARD_HEADER_BYTES, &text, &size), "reward.header_file");
        TESS_TRY_CTX(reward_headers_add(&h->own, text, size, o->header_file), "reward.header_file");
    }
    for (int i = 0; o->header_env != NULL && i < o->header_env->n; i++) {
        const char *name = o->header_env->item[i], *value = tess_variable_value_named(name);
        TESS_CHECK(strpbrk(name, ":= ") == NULL, TESS_E_INVALID,
                   "reward.header_env: it has names of variables, not the headers");
        TESS_CHECK(value != NULL, TESS_E_INVALID,
                   "reward.header_env: the variable %s is not set where this rank was started", name);
        TESS_TRY_CTX(reward_headers_add(&h->own, value, strlen(value), name), "reward.header_env");
    }
    return TESS_OK;
}

static tess_status prepare(reward_http *h, const tess_reward_options *o)
{
    size_t size = strlen(o->url) + 1;
    TESS_TRY(TESS_PART(h, size, "a URL", &h->url));
    memcpy(h->url, o->url, size);
    h->multi = reward_curl.multi_init();
    TESS_CHECK(h->multi != NULL, TESS_E_NOMEM, "no memory for requests to %s", h->url);
    TESS_TRY(read_headers(h, o));
    TESS_TRY(add_header(h, "Content-Type: application/json"));
    TESS_TRY(add_header(h, "Expect:")); /* avoids a round trip before a long body */
    for (const char *line = NULL; (line = reward_headers_next(&h->own, line)) != NULL;)
        TESS_TRY(add_header(h, line));
    TESS_TRY(TESS_PART(h, o->workers, "requests", &h->request));
    for (h->n = 0; h->n < (int)o->workers;)
        TESS_TRY(prepare_request(h, &h->request[h->n++]));
    return TESS_OK;
}

tess_status reward_http_create(tess_mem *mem, const tess_reward_options *o, reward_http **out)
{
    TESS_CHECK(o->url != NULL && (strncmp(o->url, "http://", 7) == 0 || strncmp(o->url, "https://", 8) == 0),
               TESS_E_INVALID, "the grader 'http' needs reward.url, http:// or https://");
    TESS_CHECK(o->workers <= MOST_REQUESTS, TESS_E_INVALID, "reward.workers: at most %d", MOST_REQUESTS);
    TESS_TRY(reward_curl_load());
    TESS_CHECK(reward_curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, TESS_E_NOMEM, "libcurl does not start");
    TESS_AUTO(reward_http_destroy) reward_http *h = NULL;
    tess_status status = TESS_NEW(mem, 1, "requests", &h);
    if (status != TESS_OK) {
        reward_curl.global_cleanup();
        return status;
    }
    *h = (reward_http){.mem = mem,
                       .retries = o->retries,
                       .timeout_ms = (long)(o->timeout_s * 1e3) + 1,
                       .max_answer_bytes = (size_t)o->max_answer_bytes};
    TESS_TRY(prepare(h, o));
    *out = TESS_GIVE(h);
    return TESS_OK;
}

/* Frees the slot for another item. */
static void clear(http_request *request)
{
    free(request->body);
    request->body = NULL;
    request->item = -1;
    request->again_s = 0;
    request->answer.size = 0;
}

void reward_http_destroy(reward_http **http)
{
    reward_http *h = *http;
    if (h == NULL)
        return;
    for (int i = 0; i < h->n; i++) {
        clear(&h->request[i]);
        reward_curl.easy_cleanup(h->request[i].curl);
        tess_buffer_free(&h->request[i].answer);
    }
    reward_curl.multi_cleanup(h->multi);
    reward_curl.slist_free_all(h->headers);
    tess_buffer_free(&h->own.lines);
    tess_mem_drop(http);
    reward_curl.global_cleanup();
}

/* ---- Requests ---- */
static tess_status make_body(reward_http *h, const tess_reward_item *item, char **body)
{
    json_t *json = json_pack("{s:o*, s:o*, s:o*}", "prompt", reward_json_text(h->mem, item->prompt, item->prompt_size),
                             "response", reward_json_text(h->mem, item->response, item->response_size), "label",
                             reward_json_text(h->mem, item->label, item->label_size));
    *body = json_object_size(json) == 3 ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    TESS_CHECK(*body != NULL, TESS_E_NOMEM, "no memory for a request to %s", h->url);
    return TESS_OK;
}

static void prepare_try(http_request *request)
{
    request->tries++;
    request->again_s = 0;
    request->answer.size = 0;
    request->too_long = false;
    request->error[0] = '\0';
    reward_curl.easy_setopt(request->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(request->body));
    reward_curl.easy_setopt(request->curl, CURLOPT_POSTFIELDS, request->body);
}

static tess_status begin(http_request *request)
{
    prepare_try(request);
    TESS_CHECK(reward_curl.multi_add_handle(request->http->multi, request->curl) == CURLM_OK, TESS_E_NOMEM,
               "no memory for a request to %s", request->http->url);
    return TESS_OK;
}

static double pause_s(int tries)
{
    double pause_s = FIRST_PAUSE_S;
    for (int i = 1; i < tries && pause_s < LONGEST_PAUSE_S; i++)
        pause_s *= 2;
    return pause_s < LONGEST_PAUSE_S ? pause_s : LONGEST_PAUSE_S;
}

static long code_of(const http_request *request)
{
    long code = 0;
    reward_curl.easy_getinfo(request->curl, CURLINFO_RESPONSE_CODE, &code);
    return code;
}

/* Returns advice about a status that every request would get. NULL: the status may depend on the request, or be
 * temporary. */
static const char *remedy_of(long code)
{
    switch (code) {
    case UNAUTHORIZED:
    case FORBIDDEN:
        return "it wants a key, or another: give its header by reward.header_env or reward.header_file";
    case PROXY_UNAUTHORIZED:
        return "a proxy wants a key: look at http_proxy and no_proxy";
    case NOT_FOUND:
    case NOT_ALLOWED:
        return "there is no reward model at this path: look at reward.url";
    default:
        return code >= REDIRECTION && code < CLIENT_FAILURE ? "redirections are not followed: give the address that it "
                                                              "sends to as reward.url"
                                                            : NULL;
    }
}

static tess_status fail_code(const http_request *request, long code)
{
    char snippet[64];
    const char *text = request->answer.data != NULL ? request->answer.data : "", *remedy = remedy_of(code);
    char *other = NULL;
    reward_curl.easy_getinfo(request->curl, CURLINFO_REDIRECT_URL, &other);
    TESS_FAIL(TESS_E_IO, "%s: HTTP status %ld: '%s'", request->http->url, code,
              other != NULL ? other : reward_snippet(text, request->answer.size, 60, snippet));
    return remedy == NULL ? TESS_E_IO : TESS_FAIL(TESS_E_IO, "%s; %s", tess_error_message(), remedy);
}

/* Judges the result of a request. *again: another try may succeed. */
static tess_status judge(http_request *request, CURLcode result, reward_answer *answer, bool *again)
{
    const long code = code_of(request);
    const char *url = request->http->url;
    *again = false;
    TESS_CHECK(!request->too_long, TESS_E_FORMAT, "%s: an answer of more than %zu bytes (reward.max_answer_bytes)", url,
               request->http->max_answer_bytes);
    *again = result != CURLE_OK || code == TOO_MANY || code >= SERVER_FAILURE;
    TESS_CHECK(result == CURLE_OK, result == CURLE_OPERATION_TIMEDOUT ? TESS_E_TIMEOUT : TESS_E_IO, "%s: %s", url,
               request->error[0] != '\0' ? request->error : reward_curl.easy_strerror(result));
    if (code < GOOD || code >= REDIRECTION)
        return fail_code(request, code);
    const char *text = request->answer.data != NULL ? request->answer.data : "";
    TESS_TRY_CTX(reward_body_parse(text, request->answer.size, "http", answer), "%s", url);
    return TESS_OK;
}

/* Removes secrets from the message, because a server may repeat the request in its answer. */
static tess_status hide_secrets(const reward_http *h, tess_status status)
{
    char message[1024];
    if (status == TESS_OK)
        return TESS_OK;
    snprintf(message, sizeof(message), "%s", tess_error_message());
    reward_headers_redact(&h->own, h->url, message);
    return TESS_FAIL(status, "%s", message);
}

static tess_status finish(http_request *request, CURLcode result, reward_call *call, double weight, int64_t *n_left)
{
    bool again;
    reward_answer answer;
    tess_status status = hide_secrets(request->http, judge(request, result, &answer, &again));
    reward_curl.multi_remove_handle(request->http->multi, request->curl);
    if (status != TESS_OK && again && request->tries <= request->http->retries) {
        request->again_s = tess_os_now_s() + pause_s(request->tries);
        tess_error_clear();
        return TESS_OK;
    }
    int64_t item = request->item, tries = request->tries;
    clear(request);
    --*n_left;
    if (status == TESS_OK)
        return reward_call_answered(call, item, "http", weight, &answer);
    if (tries > 1)
        tess_fail_context(status, "after %lld tries", (long long)tries);
    return reward_call_failed(call, item, "http");
}

/* Whether no connection could be made. Other failures may be caused by the empty text. */
static bool is_unreachable(CURLcode result)
{
    return result == CURLE_COULDNT_CONNECT || result == CURLE_COULDNT_RESOLVE_HOST ||
           result == CURLE_COULDNT_RESOLVE_PROXY || result == CURLE_SSL_CONNECT_ERROR ||
           result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_URL_MALFORMAT ||
           result == CURLE_UNSUPPORTED_PROTOCOL;
}

static tess_status check(reward_http *h, http_request *request)
{
    static const tess_reward_item empty = {.prompt = "", .response = "", .label = ""};
    reward_answer answer;
    CURLcode result;
    bool again;
    tess_status status;
    TESS_TRY(make_body(h, &empty, &request->body));
    request->tries = 0;
    do {
        const double pause = request->tries > 0 ? pause_s(request->tries) : 0;
        nanosleep(&(struct timespec){(time_t)pause, (long)((pause - floor(pause)) * 1e9)}, NULL);
        prepare_try(request);
        result = reward_curl.easy_perform(request->curl);
    } while (is_unreachable(result) && request->tries <= h->retries);
    status = hide_secrets(h, judge(request, result, &answer, &again));
    if (is_unreachable(result) || (result == CURLE_OK && remedy_of(code_of(request)) != NULL))
        return tess_fail_context(TESS_E_INVALID, "reward.url");
    tess_error_clear();
    return status == TESS_E_NOMEM ? status : TESS_OK;
}

tess_status reward_http_check(reward_http *h)
{
    http_request *request = &h->request[0];
    const long most_ms = h->timeout_ms < CHECK_MS ? h->timeout_ms : CHECK_MS;
    reward_curl.easy_setopt(request->curl, CURLOPT_TIMEOUT_MS, most_ms);
    tess_status status = check(h, request);
    reward_curl.easy_setopt(request->curl, CURLOPT_TIMEOUT_MS, h->timeout_ms);
    clear(request);
    return status;
}

/* Assigns items to free slots, and starts the requests that are due. *next: the first item without a slot. */
static tess_status feed(reward_http *h, reward_call *call, int64_t *next)
{
    for (int i = 0; i < h->n; i++) {
        http_request *request = &h->request[i];
        while (*next < call->n && call->out[*next].why[0] != '\0')
            ++*next;
        if (request->item < 0 && *next < call->n) {
            TESS_TRY(make_body(h, &call->items[*next], &request->body));
            request->item = (*next)++;
            request->tries = 0;
            TESS_TRY(begin(request));
        } else if (request->again_s > 0 && tess_os_now_s() >= request->again_s) {
            TESS_TRY(begin(request));
        }
    }
    return TESS_OK;
}

static int wait_ms(const reward_http *h)
{
    double now_s = tess_os_now_s(), wait_ms = MOST_WAIT_MS;
    for (int i = 0; i < h->n; i++)
        if (h->request[i].again_s > 0 && (h->request[i].again_s - now_s) * 1e3 < wait_ms)
            wait_ms = (h->request[i].again_s - now_s) * 1e3;
    return wait_ms > 0 ? 1 + (int)wait_ms : 0;
}

static tess_status run_all(reward_http *h, reward_call *call, double weight)
{
    int64_t next = 0, n_left = 0;
    for (int64_t i = 0; i < call->n; i++)
        n_left += call->out[i].why[0] == '\0';
    while (n_left > 0) {
        int running = 0, in_queue;
        TESS_TRY(feed(h, call, &next));
        CURLMcode code = reward_curl.multi_perform(h->multi, &running);
        TESS_CHECK(code == CURLM_OK, TESS_E_IO, "%s: %s", h->url, reward_curl.multi_strerror(code));
        bool any = false;
        for (CURLMsg *message; (message = reward_curl.multi_info_read(h->multi, &in_queue)) != NULL; any = true) {
            http_request *request = NULL;
            reward_curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
            TESS_TRY(finish(request, message->data.result, call, weight, &n_left));
        }
        if (!any)
            reward_curl.multi_poll(h->multi, NULL, 0, wait_ms(h), NULL);
    }
    return TESS_OK;
}

tess_status reward_http_score(reward_http *h, struct reward_call *call, double weight)
{
    tess_status status = run_all(h, call, weight);
    for (int i = 0; i < h->n; i++) { /* ends the requests of a call that has failed */
        if (h->request[i].item >= 0 && h->request[i].again_s == 0)
            reward_curl.multi_remove_handle(h->multi, h->request[i].curl);
        clear(&h->request[i]);
    }
    return status;
}

#endif
