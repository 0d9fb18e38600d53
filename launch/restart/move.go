package restart

import (
	"fmt"
	"slices"
	"strings"

	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
)

// This file decides whether a running job may be moved (rule SV-17), and builds the request that finds its new nodes.

// A Move names hosts that a job must leave, and hosts to which it may move. If both lists are empty, the job is planned
// again on the CPUs that are currently free.
type Move struct {
	From []string // excluded for the job from now on
	To   []string // the only candidates; empty: all
}

// These prefixes begin the arguments of a request to move a job, as in "from=n1" and "to=n[3-4],n7". Each may be
// given only once.
const (
	fromArg = "from="
	toArg   = "to="
)

// maxMoveText is the largest size of one folded host list in a move request, in bytes.
const maxMoveText = 1500

// Args returns the move as arguments of a control request. It returns an error if the arguments are too long.
func (m Move) Args() (args []string, err error) {
	for _, list := range []struct {
		prefix string
		names  []string
	}{{fromArg, m.From}, {toArg, m.To}} {
		folded := hostlist.FoldList(list.names)
		if len(folded) > maxMoveText {
			return nil, fmt.Errorf("the list of hosts of --%s has %d bytes, but at most %d bytes are allowed", strings.TrimSuffix(list.prefix, "="), len(folded), maxMoveText)
		}
		if folded != "" {
			args = append(args, list.prefix+folded)
		}
	}
	return args, nil
}

// ParseMove parses the arguments of a control request to move a job. They come from another process, possibly of
// another user, and may contain anything.
func ParseMove(args []string) (m Move, err error) {
	for _, arg := range args {
		hosts, list := &m.From, ""
		switch {
		case strings.HasPrefix(arg, fromArg):
			list = arg[len(fromArg):]
		case strings.HasPrefix(arg, toArg):
			hosts, list = &m.To, arg[len(toArg):]
		default:
			return Move{}, fmt.Errorf("%.60q is not an argument of a request to move a job", arg)
		}
		if *hosts != nil || len(list) > maxMoveText {
			return Move{}, fmt.Errorf("%.60q: only one list of hosts is allowed, with at most %d bytes", arg, maxMoveText)
		}
		if *hosts, err = hostlist.Expand(list); err != nil {
			return Move{}, err
		}
	}
	return m, nil
}

// WhyUnmovable returns the reason why a job can never be moved, or "" if it can be moved.
func WhyUnmovable(req job.Request) string {
	switch {
	case req.Restart.MaxRestarts == 0:
		return "the job cannot be moved: " + job.StartedWithoutText + " --restart"
	case !req.Checkpoint.CanRequest():
		return "the job cannot be moved: " + job.StartedWithoutText + " --ckpt-signal and --ckpt-cmd, so its results would be lost"
	case req.EndPolicy.LeaveChildren:
		return "the job cannot be moved: it was started with --leave-children, so its processes might stay on the old hosts"
	}
	return ""
}

// RequestAfterMove returns the request for the next attempt (one run of all ranks) of a job that moves, and the nodes
// that the job leaves. The argument now is the running attempt. refusal says why this move is not possible, or is
// empty.
func RequestAfterMove(first job.Request, attempts []job.Attempt, now job.Attempt, m Move) (req job.Request, vacated []string, refusal string) {
	from, refusal := findNamed(first.Nodes, m.From)
	to, unknown := findNamed(first.Nodes, m.To)
	if refusal == "" {
		refusal = unknown
	}
	if refusal != "" {
		return req, nil, refusal
	}
	now.Kind = job.EndByMove
	req = NextRequest(first, append(slices.Clone(attempts), now))
	req.Wait = false
	for i := range req.Nodes {
		n := &req.Nodes[i]
		switch {
		case from[n.Name]:
			n.ExcludedWhy = "--from excludes this host"
			vacated = append(vacated, n.Name)
		case len(to) > 0 && !to[n.Name]:
			n.ExcludedWhy = "this host is not in the list of --to"
		}
		if len(from)+len(to) == 0 {
			n.Tier = 0 // as at the job's start: nodes that had ranks are not preferred
		}
	}
	return req, vacated, ""
}

// findNamed returns the candidates whose name or alias is one of the given names. If a name matches no candidate,
// unknown is an error message that contains this name.
func findNamed(nodes []job.NodeDef, names []string) (found map[string]bool, unknown string) {
	found = make(map[string]bool, len(names))
	for _, name := range names {
		is := func(s string) bool { return strings.EqualFold(s, name) }
		i := slices.IndexFunc(nodes, func(n job.NodeDef) bool { return is(n.Name) || is(n.Host) || slices.ContainsFunc(n.Aliases, is) })
		if i < 0 {
			return nil, fmt.Sprintf("the job cannot be moved: %s is not among the hosts with which the job was started", name)
		}
		found[nodes[i].Name] = true
	}
	return found, ""
}

// IsSamePlan reports whether two plans have the same number of ranks on each node, so that there is nothing
// to move.
func IsSamePlan(old, p job.Plan) bool {
	ranks := make(map[string]int, len(old.Nodes))
	for _, n := range old.Nodes {
		ranks[n.Name] += len(n.Ranks)
	}
	for _, n := range p.Nodes {
		ranks[n.Name] -= len(n.Ranks)
	}
	for _, more := range ranks {
		if more != 0 {
			return false
		}
	}
	return true
}

// IsCovered reports whether a node's part of the old plan already claims the CPUs and GPUs of its part of the new
// plan. If so, the node needs no new claim.
func IsCovered(old, part job.NodePlan) bool {
	cpus, gpus := make(map[int]bool), make(map[string]bool)
	for _, r := range old.Ranks {
		for _, cpu := range r.ClaimedCPUs {
			cpus[cpu] = true
		}
		for _, address := range gpu.Addresses(r.GPUs) {
			gpus[address] = true
		}
	}
	for _, r := range part.Ranks {
		if slices.ContainsFunc(r.ClaimedCPUs, func(cpu int) bool { return !cpus[cpu] }) || slices.ContainsFunc(gpu.Addresses(r.GPUs), func(a string) bool { return !gpus[a] }) {
			return false
		}
	}
	return len(part.Ranks) <= len(old.Ranks)
}

// leftNodes returns the names of the nodes from which the job was moved away.
func leftNodes(attempts []job.Attempt) map[string]bool {
	names := make(map[string]bool)
	for _, a := range attempts {
		for _, name := range a.LeftNodes {
			names[name] = true
		}
	}
	return names
}
