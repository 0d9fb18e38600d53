package tree

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"remshell/job"
)

// frames parses frames, outermost first: "main@a.out:solve.c:40 MPI_Send@libmpi.so".
func frames(text string) (all []job.StackFrame) {
	for word := range strings.FieldsSeq(text) {
		function, rest, _ := strings.Cut(word, "@")
		parts := strings.Split(rest+"::", ":")
		line := 0
		fmt.Sscan(parts[2], &line)
		all = append(all, job.StackFrame{Function: function, Library: parts[0], File: parts[1], Line: line})
	}
	return all
}

func show(all []job.StackFrame) string {
	var words []string
	for _, f := range all {
		word := f.Function
		if f.Line > 0 {
			word += fmt.Sprint(":", f.Line)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// What is outside of main and within a call of a library is left out, unless the library has called the program again.
func TestSimplify(t *testing.T) {
	for _, test := range []struct{ stack, want string }{
		{"_start@a __libc_start_main@libc.so.6 main@a:a.c:5 solve@a:a.c:9 MPI_Send@libmpi.so progress@libucp.so poll@libc.so.6", "main:5 solve:9 MPI_Send"},
		{"_start@a main@a:a.c:5 PMPI_Barrier@libmpi.so MPIR_Barrier@libmpi.so", "main:5 MPI_Barrier"},
		{"main@a:a.f:1 MAIN__@a:a.f:7 mpi_allreduce_@libmpi_mpifh.so PMPI_Allreduce@libmpi.so", "MAIN__:7 MPI_Allreduce"},
		{"main@a MPI_Allreduce@libmpi.so op@libmpi.so userop@a:a.c:3 spin@a:a.c:4", "main MPI_Allreduce op userop:3 spin:4"},
		{"main@a MPI_Send@a MPIDI_Progress@a", "main MPI_Send"},
		{"main@a sleep@libc.so.6 clock_nanosleep@libc.so.6", "main sleep"},
		{"main@a qsort@libc.so.6 compare@a", "main qsort compare"},
		{"0x1@a __libc_start_main@libc.so.6 0x2@libc.so.6 0x3@a 0x4@a pause@libc.so.6", "0x3 0x4 pause"},
		{"clone3@libc.so.6 0x12@libc.so.6 work@a:a.c:3", "work:3"},
		{"clone3@libc.so.6 0x12@libc.so.6 timer@libc.so.6", "timer"},
		{"<module>@Python:x.py:30 main@Python:x.py:3 MPI_Send@libmpi.so progress@libucp.so", "<module>:30 main:3 MPI_Send"},
		{"main@a:a.c:3 <module>@Python:x.py:30 main@Python:x.py:4 f@Python:x.py:9", "main:3 <module>:30 main:4 f:9"},
		{"<module>@Python:x.py:30 MPI_Allreduce@libmpi.so op@libmpi.so sum@Python:x.py:3 g@Python:x.py:4", "<module>:30 MPI_Allreduce op sum:3 g:4"},
		{"<module>@Python:x.py:30 step@Python:x.py:3 wrapper@Python:c10d_logger.py:75 all_reduce@Python:distributed_c10d.py:1541 c10d::Work::wait@libtorch_cpu.so poll@libc.so.6",
			"<module>:30 step:3 torch.distributed.all_reduce"},
		{"main@a:a.cc:5 step@a:a.cc:9 ncclAllReduce@libnccl.so.2 ncclEnqueueCheck@libnccl.so.2 poll@libc.so.6", "main:5 step:9 ncclAllReduce"},
		{"", ""},
	} {
		in := frames(test.stack)
		slices.Reverse(in)
		got, _ := Simplify(in)
		if show(got) != test.want {
			t.Errorf("%s: %s, want %s", test.stack, show(got), test.want)
		}
	}
	for _, within := range []string{"", "poll@libc.so.6 "} {
		long := frames(within + strings.Repeat("f@a ", 300))
		if got, _ := Simplify(long); len(got) > job.MaxStackFrames || !strings.Contains(show(got), "more)") {
			t.Errorf("%d frames: %s", len(got), show(got))
		}
	}
}

// Names of MPI functions in C and Fortran are those of the standard.
func TestMPICall(t *testing.T) {
	for name, want := range map[string]string{"MPI_Send": "MPI_Send", "PMPI_Send": "MPI_Send", "mpi_send_": "MPI_Send", "pmpi_send__": "MPI_Send", "mpi_allreduce_f08ts_": "MPI_Allreduce",
		"MPI_": "", "mpi_init": "", "MPIR_Wait": "", "main": "", "": "", "MPI_Comm_rank": "MPI_Comm_rank", "ompi_mpi_finalize": "MPI_Finalize", "P": "", "pMPI_x(y)": ""} {
		if got, is := MPICall(name); got != want || is != (want != "") {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Calls of other libraries for communication have the name of what the ranks wait for. Threads that these libraries start for
// themselves are in no call.
func TestCommunicates(t *testing.T) {
	for _, test := range []struct{ function, file, want string }{
		{"PMPI_Send", "", "MPI_Send"}, {"PMPI_Wtime", "", ""}, {"mpi_wtime_", "", ""}, {"MPI_Pack_external", "", ""}, {"MPI_Reduce_local", "", ""}, {"MPI_Reduce", "", "MPI_Reduce"},
		{"ncclAllReduce", "", "ncclAllReduce"}, {"pncclSend", "", "ncclSend"}, {"ncclProxyProgress", "", ""}, {"ncclGetVersion", "", ""},
		{"c10d::ProcessGroupGloo::allreduce", "", "c10d::allreduce"}, {"c10d::ops::broadcast", "", "c10d::broadcast"}, {"c10d::ProcessGroup::barrier", "", "c10d::barrier"},
		{"c10d::ProcessGroupGloo::runLoop", "", ""}, {"c10d::ProcessGroupNCCL::WorkNCCL::wait", "", "c10d::Work::wait"}, {"c10d::Work::wait", "", "c10d::Work::wait"},
		{"c10d::TCPStore::wait", "", ""}, {"gloo::allreduce", "", "gloo::allreduce"}, {"gloo::(anonymous namespace)::barrier", "", "gloo::barrier"},
		{"gloo::transport::tcp::Loop::run", "", ""}, {"all_reduce", "distributed_c10d.py", "torch.distributed.all_reduce"}, {"_object_to_tensor", "distributed_c10d.py", ""},
		{"all_reduce", "mine.py", ""}, {"GroupMember.barrier", "distributed_c10d.py", ""}, {"main", "", ""}, {"", "", ""}, {"::", "", ""}, {"c10d::", "", ""}, {"p", "", ""},
	} {
		f := job.StackFrame{Function: test.function, File: test.file}
		if test.file != "" {
			f.Library = Python
		}
		if got, is := communicationCall(f); is != (test.want != "") || is && got != test.want {
			t.Errorf("%s: %s, want %s", test.function, got, test.want)
		}
	}
}

func main4(ranks string, state job.StackState, stack string) job.StackGroup {
	g := job.StackGroup{State: state, Frames: frames(stack)}
	for word := range strings.SplitSeq(ranks, ",") {
		rank := 0
		fmt.Sscan(word, &rank)
		g.Ranks = append(g.Ranks, rank)
	}
	g.Threads = len(g.Ranks)
	return g
}

const reduce = "main@a:solve.c:40 exchange@a:solve.c:212 MPI_Allreduce@libmpi.so"

// The ranks that are elsewhere are named with the reason, the likeliest first.
func TestExplain(t *testing.T) {
	all, stopped := main4("0,1,3", job.StackRuns, reduce), main4("4", job.StackStopped, reduce)
	stopped.Signal = "SIGTTIN"
	for _, test := range []struct {
		name   string
		groups []job.StackGroup
		want   string
	}{
		{"another call", []job.StackGroup{all, main4("2", job.StackRuns, "main@a:solve.c:41 MPI_Barrier@libmpi.so")}, "[2] it is in MPI_Barrier, but most ranks are in MPI_Allreduce"},
		{"another place", []job.StackGroup{all, main4("2", job.StackRuns, "main@a:solve.c:41 MPI_Allreduce@libmpi.so")}, "[2] it called MPI_Allreduce from another place in the program"},
		{"computes", []job.StackGroup{all, main4("2", job.StackRuns, "main@a compute@a")}, "[2] it computes outside of MPI"},
		{"in the kernel", []job.StackGroup{all, main4("2", job.StackBlocked, "main@a fsync@libc.so.6")}, "[2] it waits in the kernel, outside of MPI"},
		{"stopped, and one computes", []job.StackGroup{all, main4("2", job.StackRuns, "main@a compute@a"), main4("4", job.StackStopped, reduce)}, "[4] the rank is stopped by a signal"},
		{"stopped by a known signal", []job.StackGroup{all, stopped}, "[4] the rank is stopped by SIGTTIN"},
		{"ended", []job.StackGroup{all, {Ranks: []int{2}, Threads: 1, State: job.StackEnded, Note: "the process of the rank has ended"}}, "[2] the rank has ended"},
		{"two alike", []job.StackGroup{all, main4("2,4", job.StackSleeps, "main@a read@libc.so.6")}, "[2 4] they wait in the kernel, outside of MPI"},
		{"two compute", []job.StackGroup{all, main4("2,4", job.StackRuns, "main@a compute@a")}, "[2 4] they compute outside of MPI"},
		{"two are stopped", []job.StackGroup{all, main4("2,4", job.StackStopped, reduce)}, "[2 4] the ranks are stopped by a signal"},
		{"two have ended", []job.StackGroup{all, {Ranks: []int{2, 4}, Threads: 2, State: job.StackEnded}}, "[2 4] the ranks have ended"},
		{"two unread", []job.StackGroup{all, {Ranks: []int{2, 4}, Threads: 2, State: job.StackRuns, Note: "n"}}, "[2 4] the stacks of the ranks could not be read"},
		{"a debugger traces one", []job.StackGroup{all, {Ranks: []int{2}, Threads: 1, State: job.StackRuns, Note: "process 7 traces it already"}}, "none"},
		{"a debugger has stopped one", []job.StackGroup{all, {Ranks: []int{2}, Threads: 1, State: job.StackStopped, Note: "process 7 traces it already"}}, "none"},
		{"a debugger traces one, and another one computes", []job.StackGroup{all, {Ranks: []int{2}, Threads: 1, State: job.StackStopped, Note: "process 7 traces it already"},
			main4("4", job.StackRuns, "main@a compute@a")}, "[4] it computes outside of MPI"},
		{"as many in each call", []job.StackGroup{main4("0,1", job.StackRuns, "main@a MPI_Allreduce@libmpi.so"), main4("2,3", job.StackRuns, "main@a MPI_Barrier@libmpi.so")}, "none"},
		{"most in one call, from two places", []job.StackGroup{main4("0,1,2", job.StackRuns, "main@a MPI_Allreduce@libmpi.so"),
			main4("3,4", job.StackRuns, "main@a:a.c:2 MPI_Barrier@libmpi.so"), main4("5,6", job.StackRuns, "main@a:a.c:3 MPI_Barrier@libmpi.so")},
			"[0 1 2] they are in MPI_Allreduce, but most ranks are in MPI_Barrier"},
		{"all alike", []job.StackGroup{all}, "none"},
		{"none in MPI", []job.StackGroup{main4("0,1", job.StackRuns, "main@a f@a"), main4("2", job.StackRuns, "main@a g@a")}, "none"},
		{"of torch", []job.StackGroup{main4("0,1,3", job.StackSleeps, "f@Python:x.py:3 torch.distributed.all_reduce@Python"), main4("2", job.StackRuns, "f@Python:x.py:4")},
			"[2] it computes outside of torch.distributed"},
		{"nothing", nil, "none"},
	} {
		got := "none"
		if g, ok := Explain(Merge(test.groups)); ok {
			got = fmt.Sprint(g.Ranks, " ", g.Why)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Threads that run compute, except in MPI and in OpenMP.
func TestComputing(t *testing.T) {
	thread := func(rank string, state job.StackState, stack string) job.StackGroup {
		g := main4(rank, state, stack)
		g.Thread = "worker"
		return g
	}
	r := job.StackReport{Groups: []job.StackGroup{main4("0", job.StackRuns, "main@a compute@a"), thread("1,2", job.StackRuns, "work@a compute@a"), thread("3", job.StackSleeps, "work@a read@libc.so.6"),
		thread("4", job.StackRuns, "work@a MPI_Recv@libmpi.so"), thread("5", job.StackRuns, "0x1@libgomp.so.1"), thread("6", job.StackRuns, "")}}
	if got := Computing(r); !slices.Equal(got, []int{1, 2, 6}) {
		t.Errorf("%v compute", got)
	}
}

// Equal stacks are joined, wherever a loop is at the moment, and other threads are listed apart.
func TestMergeAndFormat(t *testing.T) {
	io := main4("37", job.StackBlocked, "main@a:solve.c:44 write_restart@a:io.c:88 fsync@libc.so.6")
	io.WaitsIn, io.Nodes = "nfs_wait_bit_killable", []string{"n5"}
	stopped := main4("7", job.StackStopped, "main@a:solve.c:44 raise@libc.so.6")
	stopped.Signal, stopped.WaitsIn, stopped.Nodes = "SIGTTIN", "do_signal_stop", []string{"n6"}
	helper := main4("0,1", job.StackSleeps, "progress@libucs.so epoll_wait@libc.so.6")
	helper.Thread = "async"
	groups := Merge([]job.StackGroup{helper, io, stopped, main4("0,2", job.StackRuns, reduce), main4("1", job.StackSleeps, reduce), main4("5", job.StackRuns, "main@a:solve.c:50 compute@a:c.c:7"),
		main4("4", job.StackRuns, "main@a:solve.c:50 compute@a:c.c:9")})
	groups[0].Nodes = []string{"n1", "n2"}
	const want = `  ranks 0-2      solve.c:212 exchange -> MPI_Allreduce  (spinning, 3 ranks on n[1-2])
  ranks 4-5      c.c:7 compute                          (running, 2 ranks)
  rank 7 on n6   solve.c:44 main -> raise               (stopped: SIGTTIN)
  rank 37 on n5  io.c:88 write_restart -> fsync         (in the kernel: nfs_wait_bit_killable)
  likely: rank 7 keeps the others waiting: the rank is stopped by SIGTTIN
  n9: no answer

call stacks of the main threads:
  main (solve.c:40)              ranks 0-2
    exchange (solve.c:212)
      MPI_Allreduce (libmpi.so)
  main (solve.c:50)              ranks 4-5
    compute (c.c:7)
  main (solve.c:44)              ranks 7,37
    raise (libc.so.6)            rank 7
    write_restart (io.c:88)      rank 37
      fsync (libc.so.6)

other threads:
  progress (libucs.so)      ranks 0-1, 2 threads async
    epoll_wait (libc.so.6)
`
	if got := Format(job.StackReport{Groups: groups, Notes: []string{"n9: no answer"}}); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	alike := Format(job.StackReport{Groups: Merge([]job.StackGroup{main4("0,1", job.StackRuns, reduce)})})
	if !strings.Contains(alike, "  all ranks are in the same call at the same place in the program. If MPI_Allreduce never returns, compare the arguments of the ranks (root, communicator, count), which mpiexec cannot read.\n") {
		t.Error(alike)
	}
	alike = Format(job.StackReport{Groups: Merge([]job.StackGroup{main4("0,1", job.StackRuns, "main@a:solve.c:60 MPI_Finalize@libmpi.so")})})
	if strings.Contains(alike, "arguments") {
		t.Error(alike)
	}
	unknown := Format(job.StackReport{Groups: []job.StackGroup{{Ranks: []int{0}, State: job.StackRuns, Frames: frames("@a @a")}}})
	if !strings.HasPrefix(unknown, "  rank 0  ? -> ?  (running)\n") {
		t.Error(unknown)
	}
	long := Format(job.StackReport{Groups: []job.StackGroup{{Ranks: []int{0}, State: job.StackRuns, Frames: []job.StackFrame{{Function: "solve", File: "a.cc", Line: 7},
		{Function: "std::accumulate<" + strings.Repeat("é", 200) + ">"}}}}})
	if first, _, _ := strings.Cut(long, "\n"); first != "  rank 0  a.cc:7 solve -> std::accumulate<"+strings.Repeat("é", 20)+"...  (running)" {
		t.Error(first)
	}
	hostile := Format(job.StackReport{Groups: []job.StackGroup{{Ranks: []int{0}, State: job.StackRuns, Frames: []job.StackFrame{{Function: "\x1b[2J", File: "a\nb", Line: 1}}}}})
	if strings.ContainsAny(hostile, "\x1b") || strings.Contains(hostile, "a\nb") {
		t.Errorf("%q", hostile)
	}
}
