/* The link for messages between two ranks of one host. */
#ifndef TESS_COMM_P2P_CHANNEL_H
#define TESS_COMM_P2P_CHANNEL_H

#include "comm/comm_impl.h"

/* State of a message in flight. */
typedef struct channel_work {
    struct message_slot *slot; /* the message's slot in the channel; NULL: none yet */
    uint64_t moved;            /* number of bytes moved so far */
    bool is_inline;            /* a sent message: its slot has the data */
    bool is_unreadable;        /* the sender's memory could not be read: it has ended, or the wait will time out */
} channel_work;

extern const comm_link tess_link_channel;
/* The comm_backend.link function of teams on one host. All peers have the same link. */
const comm_link *tess_channel_link(const tess_team *team, int peer);

/* Frees the channels of a team that is no longer used. */
void tess_message_free_channels(tess_team *team);

#endif
