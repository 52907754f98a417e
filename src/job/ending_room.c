#include "job/ending_room.h"

#include <stdlib.h>

tess_status tess_ending_room_create(int world, tess_ending_room **out)
{
    size_t n = (size_t)world;
    tess_ending_room *room =
        malloc(sizeof(*room) + n * (sizeof(*room->ends) + sizeof(*room->places) + sizeof(*room->odd)));
    TESS_CHECK(room != NULL, TESS_E_NOMEM, "no memory to look at the ends of %d ranks", world);
    room->ends = (tess_end *)(room + 1);
    room->places = (tess_progress_of *)(room->ends + n);
    room->odd = (bool *)(room->places + n);
    *out = room;
    return TESS_OK;
}

void tess_ending_room_free(tess_ending_room **room)
{
    free(*room);
    *room = NULL;
}
