/*
 * events: ranks tell each other of events.
 *
 *	rank 2 of 4: of 0 to all, of 1 to us
 *
 * All but rank 0 want to hear of one event, which rank 0 tells all of, and the last rank wants to hear
 * of another one, which rank 1 tells a list of: the last rank. Who wants to hear of neither hears of
 * nothing: rank 0 has a handler for all else.
 *
 * What goes wrong is told on stderr and ends the job with PMIx_Abort(2).
 */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { TO_ALL = -3001, TO_ONE = -3002 };

static pmix_proc_t me;

static void must(const char *call, pmix_status_t status)
{
	if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED)
		return;
	fprintf(stderr, "events: rank %u: %s: %s (%d)\n", me.rank, call, PMIx_Error_string(status), status);
	PMIx_Abort(2, "a wrong result", NULL, 0);
	exit(2);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t heard = PTHREAD_COND_INITIALIZER;
static int to_all, to_one; /* ranks of whom we have heard, and 1 more */

static void handler(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
		    pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t next, void *arg)
{
	(void)id, (void)info, (void)ninfo, (void)results, (void)nresults;
	pthread_mutex_lock(&mutex);
	if (status == TO_ALL)
		to_all = source->rank + 1;
	else if (status == TO_ONE)
		to_one = source->rank + 1;
	pthread_cond_signal(&heard);
	pthread_mutex_unlock(&mutex);
	if (next)
		next(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
}

static void want(pmix_status_t code)
{
	pmix_status_t id = PMIx_Register_event_handler(&code, 1, NULL, 0, handler, NULL, NULL);

	if (id < 0)
		must("PMIx_Register_event_handler", id);
}

static void await(const int *flag)
{
	pthread_mutex_lock(&mutex);
	while (!*flag)
		pthread_cond_wait(&heard, &mutex);
	pthread_mutex_unlock(&mutex);
}

static void tell_one(pmix_rank_t rank)
{
	pmix_data_array_t list;
	pmix_info_t infos[2];
	bool yes = true;

	PMIX_DATA_ARRAY_CONSTRUCT(&list, 1, PMIX_PROC);
	PMIX_LOAD_PROCID((pmix_proc_t *)list.array, me.nspace, rank);
	PMIX_INFO_LOAD(&infos[0], PMIX_EVENT_CUSTOM_RANGE, &list, PMIX_DATA_ARRAY);
	PMIX_INFO_LOAD(&infos[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
	must("PMIx_Notify_event of one", PMIx_Notify_event(TO_ONE, &me, PMIX_RANGE_CUSTOM, infos, 2, NULL, NULL));
	PMIX_INFO_DESTRUCT(&infos[0]);
	PMIX_INFO_DESTRUCT(&infos[1]);
	PMIX_DATA_ARRAY_DESTRUCT(&list);
}

int main(void)
{
	pmix_proc_t all;
	pmix_value_t *value;
	pmix_rank_t size;
	pmix_info_t info;
	bool yes = true;

	must("PMIx_Init", PMIx_Init(&me, NULL, 0));
	PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
	must("PMIx_Get of the size", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value));
	size = value->data.uint32;
	PMIX_VALUE_RELEASE(value);
	if (me.rank == 0)
		PMIx_Register_event_handler(NULL, 0, NULL, 0, handler, NULL, NULL);
	else
		want(TO_ALL);
	if (me.rank == size - 1)
		want(TO_ONE);
	must("PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
	if (me.rank == 0) {
		PMIX_INFO_LOAD(&info, PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
		must("PMIx_Notify_event of all", PMIx_Notify_event(TO_ALL, &me, PMIX_RANGE_SESSION, &info, 1, NULL, NULL));
		PMIX_INFO_DESTRUCT(&info);
	} else {
		await(&to_all);
	}
	if (me.rank == 1)
		tell_one(size - 1);
	if (me.rank == size - 1)
		await(&to_one);
	must("PMIx_Fence", PMIx_Fence(NULL, 0, NULL, 0));
	printf("rank %u of %u: of %d to all, of %d to us\n", me.rank, size, to_all - 1, to_one - 1);
	fflush(stdout);
	must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
	return 0;
}
