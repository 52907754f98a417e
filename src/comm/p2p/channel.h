/* The link between two ranks of one host. */
#ifndef TESS_COMM_P2P_CHANNEL_H
#define TESS_COMM_P2P_CHANNEL_H

#include "comm/comm_impl.h"

/* State of a message in flight. */
typedef struct channel_work {
    struct message_slot *slot; /* slot of the channel, NULL: none yet */
    uint64_t moved;            /* bytes */
    bool is_unreadable;        /* the sender's memory could not be read: it has ended, or the wait times out */
} channel_work;

extern const comm_link tess_link_channel;
/* comm_backend.link of teams on one host: the same for every peer. */
const comm_link *tess_channel_link(const tess_team *team, int peer);

/* Frees the channels of an unused team. */
void tess_message_free_channels(tess_team *team);

#endif
