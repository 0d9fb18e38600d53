/*
 * misc MODE ARGS: ways to end, and not to end.
 *
 *	misc abort RANK CODE    RANK calls MPI_Abort(CODE), the others are in a barrier
 *	misc segv RANK          RANK writes to address 0, the others are in a barrier
 *	misc kill RANK SIGNAL   RANK sends itself SIGNAL (a number), the others ...
 *	misc quit RANK CODE     RANK exits with CODE without MPI_Finalize, the others ...
 *	misc exit RANK CODE     all finalize; then RANK exits with CODE, the others with 0
 *	misc late RANK          RANK receives for ever, the others finalize
 *	misc send RANK TO       RANK sends to rank TO, which there need not be
 *	misc spin [TAG [deaf]]  each rank leaves a setsid child behind, says "ready RANK"
 *	                        and waits for ever
 *
 * RANK is a number, or "all". The child of spin has argv "TAG 1000" (TAG is
 * field-spin if not given), is in a session of its own, keeps stdout and stderr
 * open and ends by itself after 1000 s. With deaf, rank and child ignore SIGTERM.
 * A wrong call ends with exit code 64 before MPI_Init.
 */
#include <mpi.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank;
static const char *who = "all";

static int chosen(void)
{
	return strcmp(who, "all") == 0 || atoi(who) == rank;
}

static void do_abort(int code)
{
	if (chosen())
		MPI_Abort(MPI_COMM_WORLD, code);
}

static void do_segv(int unused)
{
	(void)unused;
	if (chosen())
		*(volatile int *)0 = 1;
}

static void do_kill(int sig)
{
	if (chosen())
		raise(sig);
}

static void do_quit(int code)
{
	if (chosen())
		_exit(code);
}

static void do_exit(int code)
{
	MPI_Finalize();
	exit(chosen() ? code : 0);
}

static void do_late(int unused)
{
	int flag = unused;

	while (chosen()) {
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		usleep(1000);
	}
	MPI_Finalize();
	exit(0);
}

static void do_send(int to)
{
	if (chosen())
		MPI_Send(&to, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
}

/* Returns when the child has become what it shall be: the pipe's other end closes
 * with its exec. */
static void leave_child(const char *tag)
{
	int p[2];
	char c;

	if (pipe(p) != 0 || fcntl(p[1], F_SETFD, FD_CLOEXEC) != 0) {
		perror("misc: pipe");
		exit(71);
	}
	if (fork() == 0) {
		setsid();
		execl("/bin/sleep", tag, "1000", (char *)NULL);
		perror("misc: /bin/sleep");
		_exit(71);
	}
	close(p[1]);
	while (read(p[0], &c, 1) > 0)
		;
	close(p[0]);
}

static void spin(const char *tag, int deaf)
{
	if (deaf)
		signal(SIGTERM, SIG_IGN);
	leave_child(tag);
	printf("ready %d\n", rank);
	fflush(stdout);
	for (;;)
		pause();
}

static const struct {
	const char *name;
	int args;
	void (*run)(int);
} modes[] = {
	{"abort", 2, do_abort}, {"segv", 1, do_segv}, {"kill", 2, do_kill},
	{"quit", 2, do_quit},   {"exit", 2, do_exit}, {"send", 2, do_send},
	{"late", 1, do_late},   	{"spin", 0, NULL},
};

int main(int argc, char **argv)
{
	unsigned m, n = sizeof modes / sizeof modes[0];

	for (m = 0; m < n; m++)
		if (argc > 1 && strcmp(argv[1], modes[m].name) == 0)
			break;
	if (m == n || argc - 2 < modes[m].args) {
		fprintf(stderr, "usage: misc abort|segv|kill|quit|exit|send|late|spin ARGS (see misc.c)\n");
		return 64;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (modes[m].run == NULL)
		spin(argc > 2 ? argv[2] : "field-spin", argc > 3 && strcmp(argv[3], "deaf") == 0);
	who = argv[2];
	modes[m].run(argc > 3 ? atoi(argv[3]) : 0);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
