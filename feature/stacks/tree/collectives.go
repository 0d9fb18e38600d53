package tree

import (
	"slices"
	"strings"

	"remshell/job"
)

// communicationCall reports whether a frame is a call of MPI, NCCL, gloo or torch.distributed, and returns the
// name of the call. The name begins with the name of the library, which familyOf returns.
func communicationCall(f job.StackFrame) (name string, is bool) {
	if name, is = MPICall(f.Function); is {
		return name, !isLocal(name)
	}
	if f.Library == Python {
		if f.File != "distributed_c10d.py" || strings.HasPrefix(f.Function, "_") || strings.Contains(f.Function, ".") {
			return "", false
		}
		return "torch.distributed." + f.Function, true
	}
	if bare := strings.TrimPrefix(f.Function, "p"); strings.HasPrefix(bare, "nccl") { // pncclSend is ncclSend
		return bare, slices.Contains(ncclCalls, strings.TrimPrefix(bare, "nccl"))
	}
	parts := slices.DeleteFunc(strings.Split(f.Function, "::"), func(part string) bool { return part == "(anonymous namespace)" })
	last := len(parts) - 1
	switch {
	case len(parts) == 2 && parts[0] == "gloo" && slices.Contains(c10dCalls, parts[1]):
		return "gloo::" + parts[1], true
	case len(parts) < 3 || parts[0] != "c10d":
		return "", false
	case parts[last] == "wait" && strings.Contains(parts[last-1], "Work"):
		return "c10d::Work::wait", true
	case (parts[last-1] == "ops" || parts[last-1] == "Backend" || strings.HasPrefix(parts[last-1], "ProcessGroup")) && slices.Contains(c10dCalls, parts[last]):
		return "c10d::" + parts[last], true
	}
	return "", false
}

// localCalls lists calls of MPI that never wait for another rank. A name with "*" stands for all names that begin so.
var localCalls = []string{"MPI_Wtime", "MPI_Wtick", "MPI_Reduce_local", "MPI_Pack*", "MPI_Unpack*", "MPI_Type_*", "MPI_Op_*", "MPI_Group_*", "MPI_Get_*",
	"MPI_Comm_rank", "MPI_Comm_size", "MPI_Alloc_mem", "MPI_Free_mem", "MPI_Initialized", "MPI_Finalized"}

// isLocal reports whether a call of MPI never waits for another rank, so that a rank in it computes.
func isLocal(call string) bool {
	return slices.ContainsFunc(localCalls, func(local string) bool {
		prefix, open := strings.CutSuffix(local, "*")
		return call == prefix || open && strings.HasPrefix(call, prefix)
	})
}

// Communicates reports whether a function of a native library is a call of MPI, NCCL, gloo or torch.distributed.
func Communicates(function string) bool {
	_, is := communicationCall(job.StackFrame{Function: function})
	return is
}

// These are the calls in which ranks wait for each other: calls of the libraries c10d and gloo, and calls of NCCL
// without the prefix "nccl".
var (
	c10dCalls = []string{"allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "_allgather_base", "allgather_coalesced", "gather", "scatter",
		"reduce_scatter", "_reduce_scatter_base", "alltoall", "alltoall_base", "send", "recv", "recvAnysource", "barrier", "monitoredBarrier"}
	ncclCalls = []string{"AllReduce", "Broadcast", "Bcast", "Reduce", "AllGather", "ReduceScatter", "Send", "Recv", "GroupEnd", "CommInitRank", "CommInitRankConfig",
		"CommInitAll", "CommSplit", "CommFinalize", "CommDestroy", "CommAbort"}
)

// familyOf returns the library to which a call belongs. call is a result of the function communicationCall.
func familyOf(call string) string {
	for prefix, family := range map[string]string{"torch.distributed.": "torch.distributed", "c10d::": "torch.distributed", "gloo::": "gloo", "nccl": "NCCL"} {
		if strings.HasPrefix(call, prefix) {
			return family
		}
	}
	return "MPI"
}
