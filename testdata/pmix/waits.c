/*
 * waits: ranks that wait without end, until they are ended.
 *
 * Rank 0 wants a card of the last rank, which puts none; rank 1 waits for a name that nobody publishes;
 * all others meet in a fence to which these two do not come.
 */
#include <pmix.h>
#include <stdio.h>

int main(void)
{
	pmix_proc_t me, other;
	pmix_value_t *value;
	pmix_pdata_t found;
	pmix_info_t wait;
	bool yes = true;

	if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
		return 2;
	PMIX_LOAD_PROCID(&other, me.nspace, PMIX_RANK_WILDCARD);
	if (PMIx_Get(&other, PMIX_JOB_SIZE, NULL, 0, &value) != PMIX_SUCCESS)
		return 2;
	other.rank = value->data.uint32 - 1;
	switch (me.rank) {
	case 0:
		return PMIx_Get(&other, "card", NULL, 0, &value);
	case 1:
		PMIX_PDATA_CONSTRUCT(&found);
		snprintf(found.key, sizeof found.key, "ocean");
		PMIX_INFO_LOAD(&wait, PMIX_WAIT, &yes, PMIX_BOOL);
		return PMIx_Lookup(&found, 1, &wait, 1);
	default:
		return PMIx_Fence(NULL, 0, NULL, 0);
	}
}
