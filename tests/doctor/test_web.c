/* Requests of HTTP are judged by what they say alone: methods, hosts, tokens, addresses. */
#include <string.h>

#include "doctor/web/web_request.h"
#include "support/test.h"

static void only_names_of_loopback_are_hosts(void)
{
    static const char *const good[] = {"localhost", "LocalHost:80", "127.0.0.1", "127.0.0.1:9464", "[::1]", "[::1]:1"};
    static const char *const bad[] = {"",
                                      "evil.example",
                                      "localhost.evil.example",
                                      "127.0.0.1.evil.example:80",
                                      "localhost:",
                                      "localhost:99999",
                                      "localhost:80x",
                                      "127.0.0.2",
                                      "::1",
                                      "[::1",
                                      "[::1]x",
                                      "[]",
                                      "[localhost]",
                                      " localhost",
                                      "localhost:80:80"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        EXPECT(tess_web_host_is_loopback(good[i], "127.0.0.1"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT(!tess_web_host_is_loopback(bad[i], "127.0.0.1"));
    EXPECT(!tess_web_host_is_loopback(NULL, "127.0.0.1"));
    EXPECT(tess_web_host_is_loopback("127.9.0.1:80", "127.9.0.1"));
    EXPECT(!tess_web_host_is_loopback("127.9.0.1:80", "127.9.0.2"));
    EXPECT(!tess_web_host_is_loopback("[127.9.0.1]:80", "127.9.0.1"));
}

static void only_reading_requests_are_answered(void)
{
    EXPECT_INT(tess_web_judge("GET", "localhost:80", "127.0.0.1", false), 0);
    EXPECT_INT(tess_web_judge("HEAD", "localhost:80", "127.0.0.1", false), 0);
    EXPECT_INT(tess_web_judge("POST", "localhost:80", "127.0.0.1", false), TESS_WEB_NO_METHOD);
    EXPECT_INT(tess_web_judge("get", "localhost:80", "127.0.0.1", false), TESS_WEB_NO_METHOD);
    EXPECT_INT(tess_web_judge("GET", "evil.example", "127.0.0.1", false), TESS_WEB_FORBIDDEN);
    EXPECT_INT(tess_web_judge("GET", NULL, "127.0.0.1", false), TESS_WEB_FORBIDDEN);
    EXPECT_INT(tess_web_judge("GET", "node17:9464", NULL, false), 0);
    EXPECT_INT(tess_web_judge("GET", "localhost", "127.0.0.1", true), TESS_WEB_BAD_REQUEST);
}

static void a_path_has_the_whole_token(void)
{
    EXPECT_TEXT(tess_web_path_after("/abc/part/top", "abc"), "/part/top");
    EXPECT_TEXT(tess_web_path_after("/abc/", "abc"), "/");
    EXPECT_TEXT(tess_web_path_after("/abc", "abc"), "");
    static const char *const bad[] = {"", "/", "/ab", "/abd/", "/abcd", "abc/", "//abc/", "/ABC/", "/ab/c"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT(tess_web_path_after(bad[i], "abc") == NULL);
}

static void addresses_are_numeric(void)
{
    static const struct {
        const char *text, *host;
        int port;
        bool is_loopback;
    } good[] = {{"127.0.0.1:9464", "127.0.0.1", 9464, true}, {"localhost:0", "127.0.0.1", 0, true},
                {"127.9.0.1:1", "127.9.0.1", 1, true},       {"[::1]:9464", "::1", 9464, true},
                {"0.0.0.0:9464", "0.0.0.0", 9464, false},    {"[::]:65535", "::", 65535, false},
                {"10.0.0.7:80", "10.0.0.7", 80, false},      {"[::ffff:127.0.0.1]:1", "::ffff:127.0.0.1", 1, false}};
    static const char *const bad[] = {
        "",          "9464",         ":9464",        "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
        "node17:80", "127.0.0.1:-1", "127.0.0.1:+1", "[::1]",     "::1:80",     "127.0.0.1:80 "};
    tess_web_address address;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        EXPECT(tess_web_address_read(good[i].text, &address));
        EXPECT_TEXT(address.host, good[i].host);
        EXPECT_INT(address.port, good[i].port);
        EXPECT(address.is_loopback == good[i].is_loopback);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT(!tess_web_address_read(bad[i], &address));
}

static const test_case cases[] = {CASE(only_names_of_loopback_are_hosts), CASE(only_reading_requests_are_answered),
                                  CASE(a_path_has_the_whole_token), CASE(addresses_are_numeric)};
TEST_MAIN(cases)
