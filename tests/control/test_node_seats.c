/* The places of a job with spare hosts: which host runs the ranks of which node. */
#include "support/test.h"

#include "control/launch/node/node_seats.h"

/* A host comes and waits for a start; or its connection closes. */
static void comes(node_seats *s, int host)
{
    s->hosts[host].here = s->hosts[host].known = s->hosts[host].ready = true;
}

static void goes(node_seats *s, int host)
{
    s->hosts[host].here = s->hosts[host].ready = false;
}

static void a_lost_host_is_replaced_at_once(void)
{
    static node_seats s;
    int before = -1;
    char text[200];
    node_seats_begin(&s, 3, 2);
    for (int h = 1; h < 5; h++)
        comes(&s, h);
    EXPECT(node_seats_full(&s));
    EXPECT_INT(node_seats_replace(&s, true, &before), -1); /* none is needed */
    node_seats_start(&s);
    EXPECT(!node_seats_full(&s) && s.hosts[3].ready && s.hosts[4].ready);
    goes(&s, 2);
    comes(&s, 1);
    EXPECT_TEXT(node_seats_missing(&s, text, sizeof(text)), "1 of 3 hosts: node 2");
    EXPECT_INT(node_seats_replace(&s, false, &before), 2);
    EXPECT_INT(before, 2);
    EXPECT_INT(s.holder[2], 3);
    EXPECT_INT(s.hosts[3].seat, 2);
    EXPECT_INT(s.hosts[2].seat, -1);
    EXPECT(node_seats_full(&s));
    node_seats_start(&s);
    comes(&s, 2); /* it is back: a spare now */
    goes(&s, 4);
    comes(&s, 1);
    goes(&s, 3);
    EXPECT_INT(node_seats_replace(&s, false, &before), 2);
    EXPECT_INT(before, 3);
    EXPECT_INT(s.holder[2], 2);
}

static void a_slow_host_keeps_its_place_until_it_is_late(void)
{
    static node_seats s;
    int before = -1;
    node_seats_begin(&s, 2, 1);
    comes(&s, 2);
    EXPECT_INT(node_seats_replace(&s, false, &before), -1); /* node 1 has not come yet */
    EXPECT_INT(node_seats_replace(&s, true, &before), 1);
    EXPECT(node_seats_full(&s));
    comes(&s, 1);
    EXPECT_INT(node_seats_replace(&s, true, &before), -1); /* too late: its place is taken */
    EXPECT_INT(s.hosts[1].seat, -1);
}

static void without_a_spare_that_waits_nobody_is_replaced(void)
{
    static node_seats s;
    int before = -1;
    node_seats_begin(&s, 2, 1);
    comes(&s, 1);
    comes(&s, 2);
    goes(&s, 2);
    goes(&s, 1);
    EXPECT_INT(node_seats_replace(&s, true, &before), -1);
    EXPECT_INT(s.holder[1], 1);
    EXPECT(!node_seats_full(&s));
}

static void a_host_whose_ranks_ended_well_is_not_lost(void)
{
    static node_seats s;
    int before = -1;
    node_seats_begin(&s, 3, 1);
    for (int h = 1; h < 4; h++)
        comes(&s, h);
    node_seats_start(&s);
    EXPECT(node_seats_alive(&s, 1) && !node_seats_done(&s));
    s.hosts[1].done = true;
    goes(&s, 1);
    goes(&s, 2);
    EXPECT(node_seats_alive(&s, 1) && !node_seats_alive(&s, 2));
    EXPECT(!node_seats_done(&s));
    s.hosts[2].done = true;
    EXPECT(node_seats_done(&s));
    s.hosts[2].here = true;
    node_seats_reopen(&s); /* host 2 waits for orders, and host 1 has left */
    EXPECT(s.hosts[2].ready && !s.hosts[2].done && !s.hosts[1].ready && !s.hosts[1].done);
    EXPECT_INT(node_seats_replace(&s, false, &before), 1);
    EXPECT_INT(before, 1);
    EXPECT(node_seats_full(&s));
    node_seats_start(&s);
    s.hosts[2].done = true;
    s.hosts[2].code = 2; /* it does not start again */
    node_seats_reopen(&s);
    EXPECT(s.hosts[2].done && !s.hosts[2].ready);
}

static const test_case cases[] = {
    CASE(a_host_whose_ranks_ended_well_is_not_lost),
    CASE(a_lost_host_is_replaced_at_once),
    CASE(a_slow_host_keeps_its_place_until_it_is_late),
    CASE(without_a_spare_that_waits_nobody_is_replaced),
};
TEST_MAIN(cases)
