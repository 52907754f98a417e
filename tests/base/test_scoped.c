/* Scopes of memory: blocks that end together. */
#include "support/test.h"

#include "base/mem/scoped.h"

enum { BLOCKS = 3, N = 100, MORE = 5000 };

static void expect_in_use(const tess_mem *mem, tess_pool pool, size_t bytes, size_t n_blocks)
{
    const tess_pool_stats stats = tess_mem_stats(mem, pool);
    EXPECT_INT(stats.bytes, bytes);
    EXPECT_INT(stats.n_blocks, n_blocks);
}

static tess_mem *create(void)
{
    tess_mem *mem;
    EXPECT_OK(tess_mem_create(&mem));
    return mem;
}

/* Fills a scope with three blocks. The first of the scope is the one that was allocated last. */
static void fill(tess_scope *scope, int *blocks[BLOCKS])
{
    for (int b = 0; b < BLOCKS; b++) {
        EXPECT_OK(TESS_NEW_IN(scope, N, "block", &blocks[b]));
        for (int i = 0; i < N; i++) {
            EXPECT_INT(blocks[b][i], 0);
            blocks[b][i] = b * N + i;
        }
    }
    expect_in_use(scope->mem, TESS_POOL_MISC, sizeof(int) * BLOCKS * N, BLOCKS);
}

static void expect_content(int *const blocks[BLOCKS], int but)
{
    for (int b = 0; b < BLOCKS; b++)
        for (int i = 0; i < N && b != but; i++)
            EXPECT_INT(blocks[b][i], b * N + i);
}

static void a_block_grows_in_its_scope(void)
{
    tess_mem *mem = create();
    tess_scope scope = {.mem = mem};
    int *blocks[BLOCKS];
    for (int grown = 0; grown < BLOCKS; grown++) {
        fill(&scope, blocks);
        for (size_t n = N + 1; n <= MORE; n += MORE - N - 1) {
            EXPECT_OK(tess_mem_grow(mem, TESS_POOL_MISC, n * sizeof(int), "block", (void **)&blocks[grown]));
            expect_in_use(mem, TESS_POOL_MISC, sizeof(int) * ((BLOCKS - 1) * N + n), BLOCKS);
        }
        expect_content(blocks, -1);
        EXPECT_INT(blocks[grown][MORE - 1], 0);
        tess_scope_end(&scope);
        expect_in_use(mem, TESS_POOL_MISC, 0, 0);
    }
    EXPECT_INT(tess_mem_destroy(&mem), 0);
}

static void a_block_may_be_freed_before_its_scope_ends(void)
{
    tess_mem *mem = create();
    tess_scope scope = {.mem = mem};
    int *blocks[BLOCKS], *one;
    for (int freed = 0; freed < BLOCKS; freed++) {
        fill(&scope, blocks);
        tess_mem_free(mem, blocks[freed]);
        expect_in_use(mem, TESS_POOL_MISC, sizeof(int) * (BLOCKS - 1) * N, BLOCKS - 1);
        expect_content(blocks, freed);
        EXPECT_OK(TESS_NEW_IN(&scope, 1, "block", &one)); /* the scope still takes blocks */
        for (int b = 0; b < BLOCKS; b++)                  /* the neighbours of the freed block still grow */
            if (b != freed)
                EXPECT_OK(tess_mem_grow(mem, TESS_POOL_MISC, MORE * sizeof(int), "block", (void **)&blocks[b]));
        expect_content(blocks, freed);
        tess_scope_end(&scope);
        expect_in_use(mem, TESS_POOL_MISC, 0, 0);
    }
    EXPECT_INT(tess_mem_destroy(&mem), 0);
}

static void a_scope_has_blocks_of_several_pools_and_outside_blocks_stay(void)
{
    tess_mem *mem = create();
    float *grads;
    char *text, *outside;
    EXPECT_OK(TESS_NEW(mem, 7, "outside", &outside));
    {
        TESS_AUTO(tess_scope_end) tess_scope scope = {.mem = mem};
        EXPECT_OK(tess_scope_alloc(&scope, TESS_POOL_GRADS, 11, sizeof(*grads), "gradients", (void **)&grads));
        EXPECT_OK(TESS_NEW_IN(&scope, 5, "text", &text));
        expect_in_use(mem, TESS_POOL_GRADS, 11 * sizeof(*grads), 1);
        expect_in_use(mem, TESS_POOL_MISC, 12, 2);
    }
    expect_in_use(mem, TESS_POOL_GRADS, 0, 0);
    expect_in_use(mem, TESS_POOL_MISC, 7, 1);
    tess_mem_free(mem, outside);
    EXPECT_INT(tess_mem_destroy(&mem), 0);
}

static void an_allocation_that_fails_leaves_the_scope_as_it_was(void)
{
    tess_mem *mem = create();
    tess_scope scope = {.mem = mem};
    int *blocks[BLOCKS];
    void *none;
    fill(&scope, blocks);
    EXPECT_FAILS(tess_scope_alloc(&scope, TESS_POOL_MISC, SIZE_MAX / 2, 4, "too much", &none), TESS_E_NOMEM,
                 "too much");
    expect_content(blocks, -1);
    tess_scope_end(&scope);
    EXPECT_INT(tess_mem_destroy(&mem), 0);
}

static void an_array_gets_room_again_after_its_scope_has_ended(void)
{
    tess_mem *mem = create();
    tess_scope scope = {.mem = mem};
    for (int life = 0; life < 2; life++) {
        int *array = NULL;
        size_t room = 0;
        for (int i = 0; i < N; i++) {
            EXPECT_OK(tess_scope_make_room(&scope, (size_t)i, sizeof(*array), "array", &room, &array));
            EXPECT(room > (size_t)i);
            array[i] = i;
        }
        for (int i = 0; i < N; i++)
            EXPECT_INT(array[i], i);
        expect_in_use(mem, TESS_POOL_MISC, room * sizeof(*array), 1);
        tess_scope_end(&scope);
        expect_in_use(mem, TESS_POOL_MISC, 0, 0);
    }
    EXPECT_INT(tess_mem_destroy(&mem), 0);
}

typedef struct node {
    struct node *left, *right;
    char *text;
} node;

/* Makes parts of a node, parts of these, and so on. Returns the number of blocks below the node. */
static size_t add_parts(node *n, int depth)
{
    EXPECT_OK(TESS_PART(n, depth + 1, "text", &n->text));
    if (depth == 0)
        return 1;
    EXPECT_OK(TESS_PART(n, 1, "left", &n->left));
    EXPECT_OK(TESS_PART(n, 1, "right", &n->right));
    return 3 + add_parts(n->left, depth - 1) + add_parts(n->right, depth - 1);
}

static void parts_and_their_parts_end_with_their_object(void)
{
    tess_mem *mem = create();
    node *root;
    EXPECT_OK(TESS_NEW(mem, 1, "root", &root));
    const size_t n = add_parts(root, 3);
    EXPECT_INT(n, 7 + 14 + 8);
    EXPECT_INT(tess_mem_stats(mem, TESS_POOL_MISC).n_blocks, 1 + n);
    tess_mem_drop(&root->left); /* a part with parts: the middle of three blocks */
    EXPECT_INT(tess_mem_stats(mem, TESS_POOL_MISC).n_blocks, 1 + 2 + (n - 3) / 2);
    EXPECT_OK(tess_mem_grow(mem, TESS_POOL_MISC, MORE, "text", (void **)&root->text));
    EXPECT_INT(root->text[MORE - 1], 0);
    tess_mem_drop(&root);
    EXPECT(root == NULL);
    expect_in_use(mem, TESS_POOL_MISC, 0, 0);
    EXPECT_INT(tess_mem_destroy(&mem), 0);
}

static const test_case cases[] = {
    CASE(a_block_grows_in_its_scope),
    CASE(a_block_may_be_freed_before_its_scope_ends),
    CASE(a_scope_has_blocks_of_several_pools_and_outside_blocks_stay),
    CASE(an_allocation_that_fails_leaves_the_scope_as_it_was),
    CASE(an_array_gets_room_again_after_its_scope_has_ended),
    CASE(parts_and_their_parts_end_with_their_object),
};

TEST_MAIN(cases)
