/*
 * late: a fence whose time is over.
 *
 *	rank 2 of 4: late, then all of 4
 *
 * Rank 0 waits a second for the others, who come to that fence only when it has told them (by a
 * name) that it has waited in vain: all of them find it late. They meet in the next one.
 *
 * What goes wrong is told on stderr and ends the job with PMIx_Abort(2).
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>

static pmix_proc_t me;

/* must ends the job unless a call went as it should. */
static void must(const char *call, pmix_status_t status, pmix_status_t want)
{
	if (status == want)
		return;
	fprintf(stderr, "late: rank %u: %s: %s (%d)\n", me.rank, call, PMIx_Error_string(status), status);
	PMIx_Abort(2, "a wrong result", NULL, 0);
	exit(2);
}

static void tell_others(void)
{
	pmix_info_t info;

	PMIX_INFO_LOAD(&info, "over", "yes", PMIX_STRING);
	must("PMIx_Publish", PMIx_Publish(&info, 1), PMIX_SUCCESS);
	PMIX_INFO_DESTRUCT(&info);
}

static void await_word(void)
{
	pmix_pdata_t found;
	pmix_info_t wait;
	bool yes = true;

	PMIX_PDATA_CONSTRUCT(&found);
	snprintf(found.key, sizeof found.key, "over");
	PMIX_INFO_LOAD(&wait, PMIX_WAIT, &yes, PMIX_BOOL);
	must("PMIx_Lookup", PMIx_Lookup(&found, 1, &wait, 1), PMIX_SUCCESS);
	PMIX_INFO_DESTRUCT(&wait);
	PMIX_PDATA_DESTRUCT(&found);
}

int main(void)
{
	int second = 1;
	pmix_proc_t all;
	pmix_value_t *size;
	pmix_info_t limit;

	must("PMIx_Init", PMIx_Init(&me, NULL, 0), PMIX_SUCCESS);
	PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
	must("PMIx_Get of the size", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &size), PMIX_SUCCESS);
	if (me.rank == 0) {
		PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &second, PMIX_INT);
		must("PMIx_Fence with a time", PMIx_Fence(NULL, 0, &limit, 1), PMIX_ERR_TIMEOUT);
		PMIX_INFO_DESTRUCT(&limit);
		tell_others();
	} else {
		await_word();
		must("PMIx_Fence that is over", PMIx_Fence(NULL, 0, NULL, 0), PMIX_ERR_TIMEOUT);
	}
	must("PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0), PMIX_SUCCESS);
	printf("rank %u of %u: late, then all of %u\n", me.rank, size->data.uint32, size->data.uint32);
	fflush(stdout);
	PMIX_VALUE_RELEASE(size);
	must("PMIx_Finalize", PMIx_Finalize(NULL, 0), PMIX_SUCCESS);
	return 0;
}
