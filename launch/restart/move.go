package restart

import (
	"fmt"
	"slices"
	"strings"

	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
)

// This file is what is decided about a job that somebody wants to have elsewhere (SV-17): whether it may be
// moved, and with which request a place is looked for while it runs.

// A Move is where from, and where to, as names of hosts. Without both the job is planned anew with what is free
// now.
type Move struct {
	From []string // these are out for the job from now on
	To   []string // these alone are candidates; none: all
}

// The words of an ask that wants a move: "from=n1", "to=n[3-4],n7", each once at most.
const (
	fromArg = "from="
	toArg   = "to="
)

// maxMoveText bounds the hosts that an ask may name, folded, in bytes: all words of an ask have room for it.
const maxMoveText = 1500

// Args are what the helper of the job reads; an error: they are too long for an ask.
func (m Move) Args() (words []string, err error) {
	for _, list := range []struct {
		word  string
		names []string
	}{{fromArg, m.From}, {toArg, m.To}} {
		folded := hostlist.FoldList(list.names)
		if len(folded) > maxMoveText {
			return nil, fmt.Errorf("the hosts behind --%s take %d bytes, at most %d can be told to a job", strings.TrimSuffix(list.word, "="), len(folded), maxMoveText)
		}
		if folded != "" {
			words = append(words, list.word+folded)
		}
	}
	return words, nil
}

// ParseMove reads the words of an ask, which anybody may have written who is obeyed.
func ParseMove(words []string) (m Move, err error) {
	for _, word := range words {
		into, list := &m.From, ""
		switch {
		case strings.HasPrefix(word, fromArg):
			list = word[len(fromArg):]
		case strings.HasPrefix(word, toArg):
			into, list = &m.To, word[len(toArg):]
		default:
			return Move{}, fmt.Errorf("%.60q is no word of a move", word)
		}
		if *into != nil || len(list) > maxMoveText {
			return Move{}, fmt.Errorf("%.60q: one list of at most %d bytes may stand here", word, maxMoveText)
		}
		if *into, err = hostlist.Expand(list); err != nil {
			return Move{}, err
		}
	}
	return m, nil
}

// WhyUnmovable says why a job cannot be moved at all, behind its name (T9); empty: it can.
func WhyUnmovable(req job.Request) string {
	switch {
	case req.Restart.MaxRestarts == 0:
		return "cannot be moved: it was started without --restart"
	case !req.Checkpoint.CanRequest():
		return "cannot be moved: it was started without --ckpt-signal and --ckpt-cmd, and what it has done would be lost"
	case req.EndPolicy.LeaveChildren:
		return "cannot be moved: with --leave-children something of it may stay where it is"
	}
	return ""
}

// RequestAfterMove is the request for a place to which a job is moved that runs, as its attempt now does, and the nodes that it
// leaves. It asks for what the next attempt will ask for. Why: it cannot be moved so.
func RequestAfterMove(first job.Request, attempts []job.Attempt, now job.Attempt, m Move) (req job.Request, leaves []string, why string) {
	from, why := findNamed(first.Nodes, m.From)
	to, unknown := findNamed(first.Nodes, m.To)
	if why == "" {
		why = unknown
	}
	if why != "" {
		return req, nil, why
	}
	now.Kind = job.EndByMove
	req = NextRequest(first, append(slices.Clone(attempts), now))
	req.Wait = false
	for i := range req.Nodes {
		n := &req.Nodes[i]
		switch {
		case from[n.Name]:
			n.ExcludedWhy = "the job is to leave it: --from"
			leaves = append(leaves, n.Name)
		case len(to) > 0 && !to[n.Name]:
			n.ExcludedWhy = "it is not among those of --to"
		}
		if len(from)+len(to) == 0 {
			n.Tier = 0 // as if it began: what it has had is no better than the rest
		}
	}
	return req, leaves, ""
}

// findNamed are the candidates that somebody calls by names of theirs; or who of them is none.
func findNamed(nodes []job.NodeDef, names []string) (found map[string]bool, why string) {
	found = make(map[string]bool, len(names))
	for _, name := range names {
		is := func(s string) bool { return strings.EqualFold(s, name) }
		i := slices.IndexFunc(nodes, func(n job.NodeDef) bool { return is(n.Name) || is(n.Host) || slices.ContainsFunc(n.Aliases, is) })
		if i < 0 {
			return nil, fmt.Sprintf("cannot be moved so: %s is not among the hosts that it was started with", name)
		}
		found[nodes[i].Name] = true
	}
	return found, ""
}

// IsSamePlan reports whether a plan has as many ranks on each node as another: to go there is no move.
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

// IsCovered reports whether what a node has of one plan is enough for its part of another: then nothing is to be claimed there.
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

// leftNodes are the nodes that a job has been moved away from.
func leftNodes(attempts []job.Attempt) map[string]bool {
	names := make(map[string]bool)
	for _, a := range attempts {
		for _, name := range a.LeftNodes {
			names[name] = true
		}
	}
	return names
}
