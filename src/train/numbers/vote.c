#include "train/numbers/vote.h"

static int count_holders(const uint64_t *value, size_t stride, int n, uint64_t of)
{
    int holders = 0;
    for (int i = 0; i < n; i++)
        holders += value[(size_t)i * stride] == of;
    return holders;
}

tess_vote tess_vote_on(const uint64_t *value, size_t stride, int n, bool *odd)
{
    int most = 0;
    uint64_t winner = 0;
    bool tie = false;
    for (int i = 0; i < n; i++) {
        uint64_t mine = value[(size_t)i * stride];
        int holders = count_holders(value, stride, n, mine);
        tie = holders > most ? false : tie || (holders == most && mine != winner);
        if (holders > most) {
            most = holders;
            winner = mine;
        }
    }
    for (int i = 0; i < n; i++)
        odd[i] = !tie && value[(size_t)i * stride] != winner;
    return most == n ? TESS_VOTE_SAME : tie ? TESS_VOTE_TIE : TESS_VOTE_ODD;
}
