/*
 * spawn MODE ARGS: processes that are started by processes, or meet by name.
 *
 *	spawn one N             all spawn N children with MPI_Comm_spawn
 *	spawn asks N            the same, if MPI_UNIVERSE_SIZE says that others can be spawned
 *	spawn again N           all spawn N children, part from them, and spawn N others
 *	spawn many N M          all spawn N and M children with MPI_Comm_spawn_multiple
 *	spawn nested DEPTH      all spawn one child, which does the same, DEPTH times
 *	spawn host NAMES N      as one, with NAMES for the info key "host"
 *	spawn try KEY VALUE N   rank 0 alone spawns N children with that info key, and goes on if it may not
 *	spawn missing           rank 0 alone spawns a program that does not exist
 *	spawn abort CODE        all spawn 2 children, of which the last calls MPI_Abort(CODE)
 *	spawn cousins N         all spawn N children twice; the two groups find each other by a name
 *	spawn hold N            all spawn N children; all say "ready", and wait for ever
 *	spawn names             rank 0 publishes a port and accepts, rank 1 looks it up and connects
 *
 * Parents and children add up their ranks together, and then each group says
 *
 *	parents: 2 and 3 children, sum 7
 *	children: 3 of 2 parents, appnum 0 on n1, sum 7
 *
 * one line per parent group (its rank 0), and one per child. With asks, rank 0 says "universe 3" before. With missing, and
 * with a try in vain, rank 0 says "spawn: refused", with one of children without MPI "spawn: no MPI"; with cousins, rank 0 of the second group says
 * "cousins: 2 and 2, sum 6" for those of both; with names, ranks 0 and 1 say "accepted 17", "connected 42".
 * Children are told the same MPI_UNIVERSE_SIZE as their parents. A wrong result goes to stderr and ends the job with MPI_Abort(2). What is spawned is
 * this program, or what the variable SPAWN_PROGRAM names.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void check(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "spawn: rank %d: %s\n", rank, what);
	MPI_Abort(MPI_COMM_WORLD, 2);
}

/* How many processes there may be; -1: nothing is said of it. */
static int universe(void)
{
	int *most, found;

	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &most, &found);
	return found ? *most : -1;
}

/* Parents, of which root is one, and children compare what they know. */
static void compare(MPI_Comm inter, int root)
{
	int most = universe();

	MPI_Bcast(&most, 1, MPI_INT, root, inter);
	check(most == universe(), "another universe than the parents'");
}

/* The ranks of both groups, merged, add up to what they should. */
static int meet(MPI_Comm inter, int high)
{
	MPI_Comm all;
	int me, n, sum, mine;

	MPI_Intercomm_merge(inter, high, &all);
	MPI_Comm_rank(all, &me);
	MPI_Comm_size(all, &n);
	mine = rank + 1;
	MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, all);
	MPI_Comm_free(&all);
	return sum;
}

/* Who parts stays until the others do, with all that they have spawned: no slot gets free before. */
static void part(MPI_Comm inter)
{
	MPI_Barrier(inter);
	MPI_Comm_disconnect(&inter);
}

static void parent(MPI_Comm inter)
{
	int children, sum;

	MPI_Comm_remote_size(inter, &children);
	sum = meet(inter, 0);
	check(sum == size * (size + 1) / 2 + children * (children + 1) / 2, "wrong sum");
	compare(inter, rank == 0 ? MPI_ROOT : MPI_PROC_NULL);
	if (rank == 0)
		printf("parents: %d and %d children, sum %d\n", size, children, sum);
	part(inter);
}

static void child(MPI_Comm inter)
{
	char name[MPI_MAX_PROCESSOR_NAME];
	int parents, sum, len, *appnum, found;

	MPI_Get_processor_name(name, &len);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &found);
	MPI_Comm_remote_size(inter, &parents);
	sum = meet(inter, 1);
	check(sum == size * (size + 1) / 2 + parents * (parents + 1) / 2, "wrong sum");
	compare(inter, 0);
	printf("children: %d of %d parents, appnum %d on %s, sum %d\n", size, parents,
	       found ? *appnum : -1, name, sum);
	fflush(stdout);
}

static void spawn(char *program, char **args, int n, MPI_Info info)
{
	MPI_Comm inter;
	int *codes = calloc(n, sizeof *codes);

	memset(codes, -1, n * sizeof *codes);
	MPI_Comm_spawn(program, args, n, info, 0, MPI_COMM_WORLD, &inter, codes);
	for (int i = 0; i < n; i++)
		check(codes[i] == MPI_SUCCESS, "a child has an error code");
	free(codes);
	parent(inter);
}

static void many(char *program, int n, int m)
{
	char *programs[] = {program, program};
	char *first[] = {"child", "a b", "x=y", NULL}, *second[] = {"child", NULL};
	char **args[] = {first, second};
	int counts[] = {n, m};
	MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
	MPI_Comm inter;

	MPI_Info_create(&infos[0]);
	MPI_Info_set(infos[0], "wdir", "/");
	MPI_Info_set(infos[0], "unheard-of", "b a=r");
	MPI_Comm_spawn_multiple(2, programs, args, counts, infos, 0, MPI_COMM_WORLD, &inter,
				MPI_ERRCODES_IGNORE);
	MPI_Info_free(&infos[0]);
	parent(inter);
}

/* Programs that ask give up where there is room for no more, and so would their children. */
static void ask(char *program, int n)
{
	char *args[] = {"asks", NULL};

	if (rank == 0)
		printf("universe %d\n", universe());
	if (universe() > size)
		spawn(program, args, n, MPI_INFO_NULL);
}

/* Alone, because MPICH 3.4.1 tells only the root that it failed; the others wait for ever. */
static void missing(void)
{
	MPI_Comm inter;
	int error;

	if (rank > 0)
		return;
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	error = MPI_Comm_spawn("/nowhere/at/all", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF,
			       &inter, MPI_ERRCODES_IGNORE);
	check(error != MPI_SUCCESS, "what does not exist was spawned");
	puts("spawn: refused");
}

static void try(char *program, char *key, char *value, int n)
{
	char *args[] = {"child", NULL};
	MPI_Info info;
	MPI_Comm inter;

	if (rank > 0)
		return;
	MPI_Info_create(&info);
	MPI_Info_set(info, key, value);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	if (MPI_Comm_spawn(program, args, n, info, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE) == MPI_SUCCESS) {
		size = 1; /* of the group that spawns */
		if (inter == MPI_COMM_NULL) /* ompi_non_mpi */
			puts("spawn: no MPI");
		else
			parent(inter);
	} else {
		puts("spawn: refused");
	}
	MPI_Info_free(&info);
}

static void names(void)
{
	char port[MPI_MAX_PORT_NAME];
	MPI_Comm peer;
	int got = 0, error;

	if (rank == 0) {
		int mine = 42;

		MPI_Open_port(MPI_INFO_NULL, port);
		MPI_Publish_name("remshell test", MPI_INFO_NULL, port);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &peer);
		MPI_Sendrecv(&mine, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, peer, MPI_STATUS_IGNORE);
		MPI_Comm_disconnect(&peer);
		MPI_Unpublish_name("remshell test", MPI_INFO_NULL, port);
		MPI_Close_port(port);
		printf("accepted %d\n", got);
	} else {
		int mine = 17;

		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		error = MPI_Lookup_name("no such name", MPI_INFO_NULL, port);
		MPI_Error_class(error, &error);
		check(error == MPI_ERR_NAME, "a name that nobody published is not MPI_ERR_NAME");
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank > 1)
			return;
		MPI_Lookup_name("remshell test", MPI_INFO_NULL, port);
		MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &peer);
		MPI_Sendrecv(&mine, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, peer, MPI_STATUS_IGNORE);
		MPI_Comm_disconnect(&peer);
		printf("connected %d\n", got);
	}
}

/* cousins: children of one family that have met nowhere before. The first publish, the others look up. */
static void meet_cousins(int first)
{
	char port[MPI_MAX_PORT_NAME];
	MPI_Comm peer;
	int others, sum;

	if (first) {
		if (rank == 0) {
			MPI_Open_port(MPI_INFO_NULL, port);
			MPI_Publish_name("remshell cousins", MPI_INFO_NULL, port);
		}
		MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &peer);
		if (rank == 0)
			MPI_Unpublish_name("remshell cousins", MPI_INFO_NULL, port);
	} else {
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		while (rank == 0 && MPI_Lookup_name("remshell cousins", MPI_INFO_NULL, port) != MPI_SUCCESS)
			usleep(10000); /* MPI has no look-up that waits */
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
		MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &peer);
	}
	MPI_Comm_remote_size(peer, &others);
	sum = meet(peer, first);
	check(sum == size * (size + 1) / 2 + others * (others + 1) / 2, "wrong sum of cousins");
	if (rank == 0 && !first)
		printf("cousins: %d and %d, sum %d\n", size, others, sum);
	MPI_Comm_disconnect(&peer);
}

static void cousins(char *program, int n)
{
	char *first[] = {"cousins", "1", NULL}, *second[] = {"cousins", "0", NULL};
	MPI_Comm inter[2];

	MPI_Comm_spawn(program, first, n, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter[0], MPI_ERRCODES_IGNORE);
	MPI_Comm_spawn(program, second, n, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter[1], MPI_ERRCODES_IGNORE);
	part(inter[0]);
	part(inter[1]);
}

static void hold(void)
{
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}

/* nested: what a child does with the depth that is left. */
static void nested(char *program, int depth)
{
	char left[16], *args[] = {"nested", left, NULL};

	if (depth == 0)
		return;
	snprintf(left, sizeof left, "%d", depth - 1);
	spawn(program, args, 1, MPI_INFO_NULL);
}

static int begin(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[argc - 1]) : 0;
	char *plain[] = {"child", NULL}, *failing[] = {"abort", argv[argc - 1], NULL};
	MPI_Info info = MPI_INFO_NULL;

	if (strcmp(mode, "one") == 0 && n > 0) {
		spawn(argv[0], plain, n, info);
	} else if (strcmp(mode, "asks") == 0 && n > 0) {
		ask(argv[0], n);
	} else if (strcmp(mode, "again") == 0 && n > 0) {
		spawn(argv[0], plain, n, info);
		spawn(argv[0], plain, n, info);
	} else if (strcmp(mode, "many") == 0 && argc == 4) {
		many(argv[0], atoi(argv[2]), n);
	} else if (strcmp(mode, "nested") == 0) {
		nested(argv[0], n);
	} else if (strcmp(mode, "host") == 0 && argc == 4) {
		MPI_Info_create(&info);
		MPI_Info_set(info, "host", argv[2]);
		spawn(argv[0], plain, n, info);
		MPI_Info_free(&info);
	} else if (strcmp(mode, "try") == 0 && argc == 5) {
		try(argv[0], argv[2], argv[3], n);
	} else if (strcmp(mode, "missing") == 0) {
		missing();
	} else if (strcmp(mode, "abort") == 0 && argc == 3) {
		spawn(argv[0], failing, 2, info);
		MPI_Barrier(MPI_COMM_WORLD); /* the job ends meanwhile */
		for (;;)
			MPI_Barrier(MPI_COMM_WORLD);
	} else if (strcmp(mode, "cousins") == 0 && n > 0) {
		cousins(argv[0], n);
	} else if (strcmp(mode, "hold") == 0 && n > 0) {
		char *args[] = {"hold", NULL};
		MPI_Comm inter;

		MPI_Comm_spawn(argv[0], args, n, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
		hold();
	} else if (strcmp(mode, "names") == 0) {
		names();
	} else {
		fputs("spawn: what shall I do?\n", stderr);
		return 64;
	}
	return 0;
}

int main(int argc, char **argv)
{
	MPI_Comm inter;
	int code = 0;

	MPI_Init(&argc, &argv);
	if (getenv("SPAWN_PROGRAM"))
		argv[0] = getenv("SPAWN_PROGRAM");
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_get_parent(&inter);
	if (inter != MPI_COMM_NULL && strcmp(argv[1], "cousins") == 0) {
		meet_cousins(atoi(argv[2]));
		part(inter);
	} else if (inter != MPI_COMM_NULL && strcmp(argv[1], "hold") == 0) {
		hold();
	} else if (inter != MPI_COMM_NULL) {
		check(strcmp(argv[1], "asks") != 0 || universe() > size, "nothing can be spawned");
		child(inter);
		if (strcmp(argv[1], "nested") == 0)
			nested(argv[0], atoi(argv[2]));
		part(inter);
		if (strcmp(argv[1], "abort") == 0 && rank == size - 1)
			MPI_Abort(MPI_COMM_WORLD, atoi(argv[2]));
		if (strcmp(argv[1], "abort") == 0)
			MPI_Barrier(MPI_COMM_WORLD);
	} else {
		code = begin(argc, argv);
	}
	MPI_Finalize();
	return code;
}
