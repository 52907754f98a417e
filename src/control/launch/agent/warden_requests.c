/* Answers the requests of a warden's rank (job/warden_call.h). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/os/sockets.h"
#include "control/launch/agent/agent_impl.h"

static bool is_over(const tess_job *job)
{
    bool over = atomic_load(&job->header->first_lost) < 0;
    for (int r = 0; r < (int)job->header->world && over; r++)
        over = atomic_load(&job->rows[r].state) == JOB_RANK_LEFT;
    return over;
}

/* Adopts the rank. The job takes over `fd`; on failure it is closed. */
static tess_status adopt(warden_client *client, const warden_request *request, int fd)
{
    if (client->rank >= 0 && is_over(&client->job)) {
        if (client->agent != NULL) /* other hosts may not know yet that the ranks of this one have left */
            agent_say_goodbye(client->agent);
        agent_close(&client->agent, false);
        tess_job_close(&client->job, true);
        client->rank = -1;
    }
    if (client->rank >= 0 || fd < 0 || request->rank < 0 || request->rank >= request->world) {
        tess_os_close(&fd);
        return TESS_FAIL(
            TESS_E_INVALID,
            "a warden adopts a rank with the memory of its job, and again only once all ranks have left it");
    }
    tess_status status = tess_job_open(fd, request->world, &client->job);
    if (status != TESS_OK) {
        tess_os_close(&fd);
        return status;
    }
    client->rank = request->rank;
    if (client->rank == tess_job_first_rank(&client->job)) {
        atomic_store(&client->job.header->agent_pid, (int32_t)getpid());
        /* mpirun or its daemon: the parent of the host's wardens */
        client->job.header->launcher_pid = (int32_t)getppid();
    }
    return TESS_OK;
}

static tess_status listen_for_others(warden_client *client, tess_agent_address *mine)
{
    TESS_CHECK(client->rank >= 0 && client->agent == NULL && client->rank == tess_job_first_rank(&client->job) &&
                   client->job.header->n_hosts <= JOB_MAX_HOSTS,
               TESS_E_INVALID, "the warden of a host's first rank becomes its agent, once it has adopted the rank");
    return agent_listen(client->mem, &client->job, &client->agent, mine);
}

static tess_status begin_meeting(warden_client *client, const warden_request *request)
{
    void *hosts;
    TESS_CHECK(client->agent != NULL && client->hosts == NULL && request->n_hosts >= 2 &&
                   request->n_hosts <= JOB_MAX_HOSTS,
               TESS_E_INVALID, "a listening agent gets the addresses of 2 to %d hosts once, not of %d", JOB_MAX_HOSTS,
               request->n_hosts);
    TESS_TRY(tess_mem_alloc_array(client->mem, TESS_POOL_MISC, (size_t)request->n_hosts, sizeof(tess_agent_address),
                                  "addresses of the agents", &hosts));
    client->hosts = hosts;
    client->n_hosts = request->n_hosts;
    memcpy(client->secret, request->secret, sizeof(client->secret));
    return TESS_OK;
}

static tess_status note_host(warden_client *client, const warden_request *request)
{
    TESS_CHECK(client->hosts != NULL && request->host >= 0 && request->host < client->n_hosts, TESS_E_INVALID,
               "host %d of %d is not one that the agent expects the address of", request->host, client->n_hosts);
    tess_agent_address *host = &client->hosts[request->host];
    *host = request->address;
    for (int i = 0; i < AGENT_ADDRESSES; i++)
        host->address[i][AGENT_ADDRESS_BYTES - 1] = '\0';
    return TESS_OK;
}

void warden_answer_request(warden_client *client)
{
    warden_request request;
    warden_answer answer = {0};
    int passed;
    if (tess_os_receive_message(client->channel, &request, sizeof(request), 0, &passed) != TESS_OK) {
        tess_os_close(&client->channel);
        return;
    }
    tess_status status = TESS_E_INVALID;
    bool more = false;
    switch ((request_kind)request.kind) {
    case REQUEST_ADOPT:
        status = adopt(client, &request, passed);
        passed = -1;
        break;
    case REQUEST_LISTEN:
        status = listen_for_others(client, &answer.address);
        break;
    case REQUEST_MEET:
        status = begin_meeting(client, &request);
        more = status == TESS_OK;
        break;
    case REQUEST_HOST:
        status = note_host(client, &request);
        more = status == TESS_OK && request.host + 1 < client->n_hosts;
        if (status == TESS_OK && !more) {
            status = agent_meet(client->agent, client->hosts, client->n_hosts, client->secret);
            tess_mem_drop(&client->hosts);
        }
        break;
    case REQUEST_SAY:
        tess_report_line(&client->reporter, "%.*s", (int)sizeof(request.text) - 1, request.text);
        more = true;
        break;
    default:
        TESS_FAIL(status, "a warden knows no request %d", request.kind);
    }
    tess_os_close(&passed);
    if (more)
        return;
    answer.status = status;
    if (status != TESS_OK)
        snprintf(answer.error, sizeof(answer.error), "%s", tess_error_message());
    if (tess_os_send_message(client->channel, &answer, sizeof(answer), -1) != TESS_OK)
        tess_os_close(&client->channel);
}
