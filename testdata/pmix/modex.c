/*
 * modex: what exchange (../pmi1/exchange.c) does with PMI, with PMIx and libpmix.
 *
 *	init, put and commit of a card of ~110 bytes
 *	fence that collects, get of every rank's card, fence
 *
 * libpmix asks the server once for each rank, and keeps all that it is told.
 */
#include "../pmi1/exchange.h"

#include <pmix.h>

static pmix_proc_t me;

static void must(pmix_status_t status)
{
	if (status != PMIX_SUCCESS)
		fail(PMIx_Error_string(status));
}

static pmix_value_t *find(pmix_rank_t r, const char *key)
{
	pmix_proc_t p;
	pmix_value_t *value;

	PMIX_LOAD_PROCID(&p, me.nspace, r);
	must(PMIx_Get(&p, key, NULL, 0, &value));
	return value;
}

static const char *get(int r, const char *key)
{
	static char text[256];
	pmix_value_t *value = find(r, key);

	snprintf(text, sizeof text, "%s", value->data.string);
	PMIX_VALUE_RELEASE(value);
	return text;
}

static void put(const char *key, char *text)
{
	pmix_value_t value = {.type = PMIX_STRING, .data.string = text};

	must(PMIx_Put(PMIX_GLOBAL, key, &value));
	must(PMIx_Commit());
}

static void fence(bool collects)
{
	pmix_info_t info;

	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collects, PMIX_BOOL);
	must(PMIx_Fence(NULL, 0, &info, 1));
	PMIX_INFO_DESTRUCT(&info);
}

int main(void)
{
	pmix_value_t *ranks;
	struct times t;
	char text[256];

	must(PMIx_Init(&me, NULL, 0));
	rank = me.rank;
	ranks = find(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
	size = ranks->data.uint32;
	PMIX_VALUE_RELEASE(ranks);
	put("card", card(rank));

	t.cpu = -server();
	t.enter = now(CLOCK_MONOTONIC);
	fence(true);
	t.first = now(CLOCK_MONOTONIC);
	for (int r = rank; r < rank + size; r++)
		if (strcmp(get(r % size, "card"), card(r % size)))
			fail("a wrong card");
	t.last = now(CLOCK_MONOTONIC);
	fence(false);
	t.leave = now(CLOCK_MONOTONIC);
	t.cpu += server();

	t.peak = t.cpu ? peak() : 0;
	snprintf(text, sizeof text, FORM, t.enter, t.first, t.last, t.leave, t.cpu, t.peak);
	put("times", text);
	fence(true);
	if (rank == 0)
		report(get);
	must(PMIx_Finalize(NULL, 0));
	return 0;
}
