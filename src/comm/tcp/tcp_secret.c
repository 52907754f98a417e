/* Reads the job's secret, and proves with an HMAC of libcrypto that this process knows it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/core/variables.h"
#include "comm/tcp/tcp_impl.h"

enum { LEAST_BYTES = 16 };

#define HOW_TO_MAKE "`openssl rand -hex 32 >FILE`, the same file on all hosts, readable by you alone"

static tess_status read_file(const char *path, tcp_secret *secret)
{
    FILE *file = fopen(path, "re");
    TESS_CHECK(file != NULL, TESS_E_NOT_FOUND, "TESSERA_SECRET_FILE: cannot open %s: %m", path);
    secret->n = fread(secret->bytes, 1, sizeof(secret->bytes), file);
    const bool is_long = fgetc(file) != EOF;
    fclose(file);
    TESS_CHECK(!is_long, TESS_E_INVALID, "the job's secret (%s) has more than %zu bytes: " HOW_TO_MAKE, path,
               sizeof(secret->bytes));
    return TESS_OK;
}

static tess_status read_secret(tcp_secret *secret)
{
    const char *text = tess_variable_value(TESS_VAR_SECRET), *path = tess_variable_value(TESS_VAR_SECRET_FILE);
    TESS_CHECK(text != NULL || path != NULL, TESS_E_INVALID,
               "ranks of several hosts need a secret: set TESSERA_SECRET_FILE=FILE on each host (" HOW_TO_MAKE
               "), or TESSERA_SECRET");
    if (text != NULL) {
        secret->n = strnlen(text, sizeof(secret->bytes));
        memcpy(secret->bytes, text, secret->n);
    } else {
        TESS_TRY(read_file(path, secret));
    }
    while (secret->n > 0 && memchr(" \t\r\n", secret->bytes[secret->n - 1], 4) != NULL)
        secret->n--;
    TESS_CHECK(secret->n >= LEAST_BYTES, TESS_E_INVALID,
               "the job's secret (%s) has %zu bytes, and needs at least %d: " HOW_TO_MAKE,
               text != NULL ? "TESSERA_SECRET" : path, secret->n, LEAST_BYTES);
    return TESS_OK;
}

/* libcrypto stays loaded to the end of the process. Its header is not needed: both functions have kept their form
 * since OpenSSL 1.0. */
static tess_status load_crypto(tcp_secret *secret)
{
    static const char *const files[] = {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && library == NULL; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    TESS_CHECK(library != NULL, TESS_E_NOT_FOUND,
               "libcrypto.so.3 is missing, with which hosts prove that they know the job's secret: install the Debian "
               "package libssl3");
    void *hmac = dlsym(library, "HMAC"), *sha256 = dlsym(library, "EVP_sha256");
    TESS_CHECK(hmac != NULL && sha256 != NULL, TESS_E_UNSUPPORTED, "libcrypto has no HMAC or no EVP_sha256");
    memcpy(&secret->hmac, &hmac, sizeof(hmac));
    memcpy(&secret->sha256, &sha256, sizeof(sha256));
    return TESS_OK;
}

tess_status tcp_secret_open(tcp_secret *secret)
{
    TESS_TRY(read_secret(secret));
    TESS_TRY(load_crypto(secret));
    tcp_hello trial = {.magic = "tessera"};
    uint8_t proof[TCP_NONCE_BYTES];
    TESS_CHECK(getrandom(trial.nonce, TCP_NONCE_BYTES, 0) == TCP_NONCE_BYTES &&
                   tcp_secret_prove(secret, "trial", &trial, trial.nonce, proof),
               TESS_E_UNSUPPORTED,
               "libcrypto computes no HMAC with SHA-256, or the system gives no random bytes: see OPENSSL_CONF");
    return TESS_OK;
}

bool tcp_secret_derive(const tcp_secret *secret, const char *purpose, uint8_t derived[TCP_NONCE_BYTES])
{
    unsigned int n = 0;
    return secret->hmac(secret->sha256(), secret->bytes, (int)secret->n, (const unsigned char *)purpose,
                        strlen(purpose), derived, &n) != NULL &&
           n == TCP_NONCE_BYTES;
}

bool tcp_secret_prove(const tcp_secret *secret, const char *side, const tcp_hello *hello,
                      const uint8_t nonce[TCP_NONCE_BYTES], uint8_t proof[TCP_NONCE_BYTES])
{
    struct {
        char side[8];
        tcp_hello hello;
        uint8_t nonce[TCP_NONCE_BYTES];
    } said = {.hello = *hello};
    unsigned int n = 0;
    snprintf(said.side, sizeof(said.side), "%s", side);
    memcpy(said.nonce, nonce, sizeof(said.nonce));
    return secret->hmac(secret->sha256(), secret->bytes, (int)secret->n, (const unsigned char *)&said, sizeof(said),
                        proof, &n) != NULL &&
           n == TCP_NONCE_BYTES;
}
