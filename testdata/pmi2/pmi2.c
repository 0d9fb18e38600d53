/*
 * pmi2: what Slurm's libpmi2 asks of a server, without MPI.
 *
 *	pmi2: 4 ranks, all as it should be
 *
 * comes from rank 0 after all ranks have checked: their place, the attributes of the
 * job and of the node, with and without waiting, keys of all ranks, names, the ring.
 * A wrong answer goes to stderr and ends the job with PMI2_Abort.
 *
 *	pmi2 hold NAME PORT	publishes NAME, prints "published", and waits to be killed
 *	pmi2 find NAME		looks NAME up once, and prints the port or "not found"
 *	pmi2 race ME OTHER N	publishes N names, each at the same time as the job that has ME and OTHER
 *				exchanged: prints "published I" or "refused I", and at the end "over"
 */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void check(int good, const char *what)
{
	char why[200];

	if (good)
		return;
	snprintf(why, sizeof why, "pmi2: rank %d: %s", rank, what);
	fprintf(stderr, "%s\n", why);
	PMI2_Abort(1, why);
	_exit(1);
}

#define try(call) check((call) == PMI2_SUCCESS, #call)

/* All that a value may contain, the semicolon of the wire too. */
static const char *card(int r)
{
	static char text[100];

	snprintf(text, sizeof text, "host;%d=x y;;end", r);
	return text;
}

static void job(void)
{
	char id[PMI2_MAX_VALLEN], value[PMI2_MAX_VALLEN];
	int found, me = -1;

	try(PMI2_Job_GetId(id, sizeof id));
	check(id[0] != '\0', "the job has no name");
	try(PMI2_Job_GetRank(&me));
	/* Where it came in by PMI_PORT, the library takes PMI_ID for the rank here. */
	check(me == rank || getenv("PMI_PORT"), "another rank");
	try(PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof value, &found));
	check(found && strncmp(value, "(vector,", 8) == 0, "no mapping");
	try(PMI2_Info_GetJobAttr("universeSize", value, sizeof value, &found));
	check(!found || atoi(value) >= size, "universe size");
	try(PMI2_Info_GetJobAttr("nosuch", value, sizeof value, &found));
	check(!found, "an attribute is found that does not exist");
}

/* Who is first on its node tells the others, who wait. */
static void node(int first)
{
	char value[PMI2_MAX_VALLEN], mine[PMI2_MAX_VALLEN];
	int found;

	try(PMI2_Info_GetNodeAttr("nokey", value, sizeof value, &found, 0));
	check(!found, "a node attribute is found that does not exist");
	snprintf(mine, sizeof mine, "val;0");
	if (first) {
		usleep(20000); /* so that the others do wait */
		try(PMI2_Info_PutNodeAttr("shared", mine));
	}
	try(PMI2_Info_GetNodeAttr("shared", value, sizeof value, &found, 1));
	check(found && strcmp(value, mine) == 0, "the node attribute is another one");
}

static void keys(void)
{
	char key[PMI2_MAX_KEYLEN], value[PMI2_MAX_VALLEN];
	int len;

	snprintf(key, sizeof key, "card-%d", rank);
	try(PMI2_KVS_Put(key, card(rank)));
	try(PMI2_KVS_Fence());
	for (int r = 0; r < size; r++) {
		snprintf(key, sizeof key, "card-%d", r);
		try(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, value, sizeof value, &len));
		check(strcmp(value, card(r)) == 0, "a card is another one");
	}
	check(PMI2_KVS_Get(NULL, PMI2_ID_NULL, "missing", value, sizeof value, &len) != PMI2_SUCCESS,
	      "a key is found that nobody put");
	try(PMI2_KVS_Fence());
}

static void names(void)
{
	char port[PMI2_MAX_VALLEN] = "";

	if (rank == 0) {
		try(PMI2_Nameserv_publish("svc", NULL, "port;1=2"));
		check(PMI2_Nameserv_publish("svc", NULL, "other") != PMI2_SUCCESS, "published twice");
	}
	try(PMI2_KVS_Fence());
	try(PMI2_Nameserv_lookup("svc", NULL, port, sizeof port));
	check(strcmp(port, "port;1=2") == 0, "the port is another one");
	check(PMI2_Nameserv_lookup("nosuch", NULL, port, sizeof port) != PMI2_SUCCESS,
	      "a name is found that nobody published");
	try(PMI2_KVS_Fence());
	if (rank == 0)
		try(PMI2_Nameserv_unpublish("svc", NULL));
	try(PMI2_KVS_Fence());
	check(PMI2_Nameserv_lookup("svc", NULL, port, sizeof port) != PMI2_SUCCESS,
	      "a name is found that was withdrawn");
}

static void ring(void)
{
	char mine[100], left[PMI2_MAX_VALLEN], right[PMI2_MAX_VALLEN], want[100];
	int me = -1, all = -1;

	snprintf(mine, sizeof mine, "v;%d", rank);
	try(PMIX_Ring(mine, &me, &all, left, right, sizeof left));
	check(me == rank && all == size, "another place in the ring");
	snprintf(want, sizeof want, "v;%d", (rank + size - 1) % size);
	check(strcmp(left, want) == 0, "another neighbour on the left");
	snprintf(want, sizeof want, "v;%d", (rank + 1) % size);
	check(strcmp(right, want) == 0, "another neighbour on the right");
}

static void race(const char *me, const char *other, int n)
{
	char name[100], port[PMI2_MAX_VALLEN];

	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof name, "%s is at %d", me, i);
		try(PMI2_Nameserv_publish(name, NULL, "here"));
		snprintf(name, sizeof name, "%s is at %d", other, i);
		while (PMI2_Nameserv_lookup(name, NULL, port, sizeof port) != PMI2_SUCCESS)
			usleep(1000);
		snprintf(name, sizeof name, "race %d", i);
		printf("%s %d\n", PMI2_Nameserv_publish(name, NULL, me) == PMI2_SUCCESS ? "published" : "refused", i);
	}
	printf("over\n");
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	int spawned, appnum;
	char port[PMI2_MAX_VALLEN] = "";
	const char *local = getenv("MPI_LOCALRANKID");

	try(PMI2_Init(&spawned, &size, &rank, &appnum));
	check(!spawned && appnum == 0, "another way to have come here");
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 4 && strcmp(argv[1], "hold") == 0) {
		try(PMI2_Nameserv_publish(argv[2], NULL, argv[3]));
		printf("published\n");
		for (;;)
			pause();
	} else if (argc == 3 && strcmp(argv[1], "find") == 0) {
		printf("%s\n", PMI2_Nameserv_lookup(argv[2], NULL, port, sizeof port) == PMI2_SUCCESS ? port : "not found");
		PMI2_Finalize();
		return 0;
	} else if (argc == 5 && strcmp(argv[1], "race") == 0) {
		race(argv[2], argv[3], atoi(argv[4]));
	}
	job();
	node(local && atoi(local) == 0);
	keys();
	names();
	ring();
	try(PMI2_KVS_Fence());
	if (rank == 0)
		printf("pmi2: %d ranks, all as it should be\n", size);
	PMI2_Finalize();
	return 0;
}
