#include "rl/reward/reward_http.h"

#include "rl/reward/reward_impl.h"

#ifndef TESS_CURL

tess_status reward_http_create(tess_mem *mem, const tess_reward_options *options, reward_http **http)
{
    (void)mem, (void)options, (void)http;
    return TESS_FAIL(TESS_E_UNSUPPORTED,
                     "reward.kind: 'http' is not possible, since tessera was built without libcurl: "
                     "install libcurl4-openssl-dev and build again");
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

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"

enum { MOST_REQUESTS = 1024, MOST_WAIT_MS = 1000, GOOD = 200, REDIRECTION = 300, TOO_MANY = 429, SERVER_FAILURE = 500 };
static const double FIRST_PAUSE_S = 0.1, LONGEST_PAUSE_S = 30;

/* A place for one request at a time, with a connection that is kept. */
typedef struct http_request {
    reward_http *http;
    CURL *curl;
    int64_t item; /* -1: none */
    int tries;
    double again_s; /* when it is tried again; 0: under way */
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
    size_t max_answer_bytes;
    CURLM *multi;
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

static tess_status prepare_request(reward_http *h, http_request *request, double timeout_s)
{
    *request = (http_request){.http = h, .item = -1, .answer.mem = h->mem, .curl = curl_easy_init()};
    TESS_CHECK(request->curl != NULL, TESS_E_NOMEM, "no memory for requests to %s", h->url);
    bool set = curl_easy_setopt(request->curl, CURLOPT_URL, h->url) == CURLE_OK &&
               curl_easy_setopt(request->curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
               curl_easy_setopt(request->curl, CURLOPT_HTTPHEADER, h->headers) == CURLE_OK &&
               curl_easy_setopt(request->curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
               curl_easy_setopt(request->curl, CURLOPT_TIMEOUT_MS, (long)(timeout_s * 1e3) + 1) == CURLE_OK &&
               curl_easy_setopt(request->curl, CURLOPT_WRITEFUNCTION, receive) == CURLE_OK &&
               curl_easy_setopt(request->curl, CURLOPT_WRITEDATA, request) == CURLE_OK &&
               curl_easy_setopt(request->curl, CURLOPT_ERRORBUFFER, request->error) == CURLE_OK &&
               curl_easy_setopt(request->curl, CURLOPT_PRIVATE, request) == CURLE_OK;
    TESS_CHECK(set, TESS_E_UNSUPPORTED, "this libcurl (%s) cannot do what requests need", curl_version());
    return TESS_OK;
}

static tess_status prepare(reward_http *h, const tess_reward_options *o)
{
    size_t size = strlen(o->url) + 1;
    TESS_TRY(tess_mem_alloc(h->mem, TESS_POOL_MISC, size, "a URL", (void **)&h->url));
    memcpy(h->url, o->url, size);
    h->multi = curl_multi_init();
    struct curl_slist *type = curl_slist_append(NULL, "Content-Type: application/json");
    h->headers = type != NULL ? curl_slist_append(type, "Expect:") : NULL; /* no round trip before long bodies */
    if (h->headers == NULL)
        curl_slist_free_all(type);
    TESS_CHECK(h->multi != NULL && h->headers != NULL, TESS_E_NOMEM, "no memory for requests to %s", h->url);
    TESS_TRY(tess_mem_alloc_array(h->mem, TESS_POOL_MISC, (size_t)o->workers, sizeof(http_request), "requests",
                                  (void **)&h->request));
    for (h->n = 0; h->n < (int)o->workers;)
        TESS_TRY(prepare_request(h, &h->request[h->n++], o->timeout_s));
    return TESS_OK;
}

tess_status reward_http_create(tess_mem *mem, const tess_reward_options *o, reward_http **out)
{
    TESS_CHECK(o->url != NULL && (strncmp(o->url, "http://", 7) == 0 || strncmp(o->url, "https://", 8) == 0),
               TESS_E_INVALID, "the grader 'http' needs reward.url, http:// or https://");
    TESS_CHECK(o->workers <= MOST_REQUESTS, TESS_E_INVALID, "reward.workers: at most %d", MOST_REQUESTS);
    TESS_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, TESS_E_NOMEM, "libcurl does not start");
    reward_http *h;
    tess_status status = tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*h), "requests", (void **)&h);
    if (status != TESS_OK) {
        curl_global_cleanup();
        return status;
    }
    *h = (reward_http){
        .mem = mem, .retries = o->retries > 0 ? o->retries : 0, .max_answer_bytes = (size_t)o->max_answer_bytes};
    status = prepare(h, o);
    if (status == TESS_OK)
        *out = h;
    else
        reward_http_destroy(&h);
    return status;
}

/* The place is free again. */
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
        curl_easy_cleanup(h->request[i].curl);
        tess_buffer_free(&h->request[i].answer);
    }
    curl_multi_cleanup(h->multi);
    curl_slist_free_all(h->headers);
    tess_mem_free(h->mem, h->request);
    tess_mem_free(h->mem, h->url);
    tess_mem_free(h->mem, h);
    curl_global_cleanup();
    *http = NULL;
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

static tess_status begin(http_request *request)
{
    request->tries++;
    request->again_s = 0;
    request->answer.size = 0;
    request->too_long = false;
    request->error[0] = '\0';
    curl_easy_setopt(request->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(request->body));
    curl_easy_setopt(request->curl, CURLOPT_POSTFIELDS, request->body);
    TESS_CHECK(curl_multi_add_handle(request->http->multi, request->curl) == CURLM_OK, TESS_E_NOMEM,
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

/* What came of a request. *again: it may do better another time. */
static tess_status judge(http_request *request, CURLcode result, reward_answer *answer, bool *again)
{
    long code = 0;
    char snippet[64];
    const char *url = request->http->url;
    curl_easy_getinfo(request->curl, CURLINFO_RESPONSE_CODE, &code);
    *again = false;
    TESS_CHECK(!request->too_long, TESS_E_FORMAT, "%s: an answer of more than %zu bytes (reward.max_answer_bytes)", url,
               request->http->max_answer_bytes);
    *again = result != CURLE_OK || code == TOO_MANY || code >= SERVER_FAILURE;
    TESS_CHECK(result == CURLE_OK, result == CURLE_OPERATION_TIMEDOUT ? TESS_E_TIMEOUT : TESS_E_IO, "%s: %s", url,
               request->error[0] != '\0' ? request->error : curl_easy_strerror(result));
    const char *text = request->answer.data != NULL ? request->answer.data : "";
    TESS_CHECK(code >= GOOD && code < REDIRECTION, TESS_E_IO, "%s: HTTP status %ld: '%s'", url, code,
               reward_snippet(text, request->answer.size, 60, snippet));
    TESS_TRY_CTX(reward_body_parse(text, request->answer.size, "http", answer), "%s", url);
    return TESS_OK;
}

static tess_status finish(http_request *request, CURLcode result, reward_call *call, double weight, int64_t *n_left)
{
    bool again;
    reward_answer answer;
    tess_status status = judge(request, result, &answer, &again);
    curl_multi_remove_handle(request->http->multi, request->curl);
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
    return reward_call_failed(call, item, "http", status);
}

/* Gives free places items, and begins what is due. *next: the first item that has no place. */
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
        CURLMcode code = curl_multi_perform(h->multi, &running);
        TESS_CHECK(code == CURLM_OK, TESS_E_IO, "%s: %s", h->url, curl_multi_strerror(code));
        bool any = false;
        for (CURLMsg *message; (message = curl_multi_info_read(h->multi, &in_queue)) != NULL; any = true) {
            http_request *request = NULL;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
            TESS_TRY(finish(request, message->data.result, call, weight, &n_left));
        }
        if (!any)
            curl_multi_poll(h->multi, NULL, 0, wait_ms(h), NULL);
    }
    return TESS_OK;
}

tess_status reward_http_score(reward_http *h, struct reward_call *call, double weight)
{
    tess_status status = run_all(h, call, weight);
    for (int i = 0; i < h->n; i++) { /* of a call that has failed */
        if (h->request[i].item >= 0 && h->request[i].again_s == 0)
            curl_multi_remove_handle(h->multi, h->request[i].curl);
        clear(&h->request[i]);
    }
    return status;
}

#endif
