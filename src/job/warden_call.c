#include "job/warden_call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/variables.h"
#include "base/os/os.h"
#include "base/os/sockets.h"

static const double answer_s = 60; /* the warden answers at once, unless it gets no CPU time */

bool tess_warden_find(int *fd)
{
    const char *text = tess_variable_value(TESS_VAR_GUARD_FD);
    char *end;
    if (text == NULL)
        return false;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 0 || number > INT32_MAX ||
        !tess_os_is_socket((int)number))
        return false; /* a child of a rank inherits the variable, not the socket */
    *fd = (int)number;
    fcntl(*fd, F_SETFD, FD_CLOEXEC);
    return true;
}

static tess_status send_request(int fd, const warden_request *request, int passed)
{
    TESS_TRY_CTX(tess_os_send_message(fd, request, sizeof(*request), passed), "ask the warden of this rank");
    return TESS_OK;
}

static tess_status read_answer(int fd, warden_answer *answer)
{
    int passed;
    TESS_TRY_CTX(tess_os_receive_message(fd, answer, sizeof(*answer), answer_s, &passed), "the warden of this rank");
    tess_os_close(&passed);
    if (answer->status == TESS_OK)
        return TESS_OK;
    return TESS_FAIL((tess_status)answer->status, "%.*s", JOB_ERROR_BYTES - 1, answer->error);
}

tess_status tess_warden_adopt(int fd, const tess_job *job, int rank)
{
    warden_request request = {.kind = REQUEST_ADOPT, .rank = rank, .world = (int32_t)job->header->world};
    warden_answer answer;
    TESS_TRY(send_request(fd, &request, job->fd));
    return read_answer(fd, &answer);
}

tess_status tess_warden_listen(int fd, tess_agent_address *mine)
{
    warden_request request = {.kind = REQUEST_LISTEN};
    warden_answer answer;
    TESS_TRY(send_request(fd, &request, -1));
    TESS_TRY(read_answer(fd, &answer));
    *mine = answer.address;
    return TESS_OK;
}

tess_status tess_warden_meet(int fd, const tess_agent_address *hosts, int n_hosts,
                             const uint8_t secret[AGENT_SECRET_BYTES])
{
    warden_request request = {.kind = REQUEST_MEET, .n_hosts = n_hosts};
    warden_answer answer;
    memcpy(request.secret, secret, sizeof(request.secret));
    TESS_TRY(send_request(fd, &request, -1));
    request.kind = REQUEST_HOST;
    for (int h = 0; h < n_hosts; h++) {
        request.host = h;
        request.address = hosts[h];
        TESS_TRY(send_request(fd, &request, -1));
    }
    return read_answer(fd, &answer);
}

void tess_warden_say(int fd, const char *line)
{
    warden_request request = {.kind = REQUEST_SAY};
    snprintf(request.text, sizeof(request.text), "%s", line);
    if (send_request(fd, &request, -1) != TESS_OK)
        tess_error_clear();
}
