package reserve

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"remshell/fault"
	"remshell/job"
	"remshell/wire"
)

// A claimLost is a node that another job got first.
type claimLost struct{ node, reason string }

// claim hands every node of a plan its part and waits until all are ready. If one cannot,
// the others give up what they have claimed.
func (r *reservation) claim(ctx context.Context, p job.Plan) error {
	r.choose(p)
	r.counts = PerSection(p, len(r.req.Apps))
	if r.spawn != nil {
		r.outset = r.spawn.Outset
	} else {
		r.outset = newOutset(slots(r.req, r.snap.Nodes, p), r.chosen)
	}
	byID := slices.SortedFunc(slices.Values(r.chosen), func(x, y *host) int { return x.def.ID - y.def.ID })
	err := r.prepare(ctx, byID[:1], byID[1:])
	if err != nil {
		r.giveBack()
	}
	return err
}

// choose makes a plan that which is to be carried out.
func (r *reservation) choose(p job.Plan) {
	r.plan, r.chosen = p, nil
	for _, np := range p.Nodes {
		r.chosen = append(r.chosen, r.seen[np.Node])
	}
}

// giveBack has the nodes of the plan forget their part.
func (r *reservation) giveBack() {
	for _, n := range r.chosen {
		n.Send(&wire.Release{Group: r.group()})
	}
	r.chosen = nil
}

// prepare tells groups of nodes their part, one group after the other. The error says
// which refuse, or that one is taken; then those behind it are not asked.
func (r *reservation) prepare(ctx context.Context, groups ...[]*host) error {
	local := r.localAddress(slices.Concat(r.chosen, r.ownHosts()))
	part := make(map[*host]int, len(r.chosen)) // of the plan
	for i, n := range r.chosen {
		part[n] = i
	}
	var refused []job.Failure
	refuse := func(n *host, e *fault.Error) { refused = append(refused, job.Failure{Node: n.def.Name, Err: e}) }
	for _, nodes := range groups {
		var taken *claimLost
		err := r.ask(ctx, r.answerTime(), nodes,
			func(n *host) wire.Message { return r.preparation(part[n], local) },
			func(n *host, m wire.Message) bool {
				switch m := m.(type) {
				case *wire.Prepared:
					r.notice(n, m.Notice)
					r.meet = cmp.Or(m.Meet, r.meet)
				case *wire.Taken:
					taken = &claimLost{n.def.Name, m.Reason}
				case *wire.Refused:
					refuse(n, &fault.Error{Text: m.Reason, Remedy: m.Hint, Code: m.Code})
				default:
					return false
				}
				return true
			})
		for _, n := range r.chosen { // those who were asked before, too
			if n.lost != nil { // the next survey judges that
				taken = &claimLost{n.def.Name, "lost contact before the start"}
			}
		}
		switch {
		case err != nil:
			return err
		case taken != nil && len(refused) == 0:
			return taken
		}
	}
	if len(refused) == 0 {
		return nil
	}
	// Equal reasons are told once; the code is that of the first node.
	slices.SortFunc(refused, func(x, y job.Failure) int { return strings.Compare(x.Node, y.Node) })
	return &HostsError{Failed: refused}
}

// keptApart is the end of a job that wants nobody beside it, or whose administrator does,
// where that cannot be had (TRUST-13). Others start all the same, and say so.
func (r *reservation) keptApart() error {
	if !r.req.Exclusive && !r.req.Queue.Strict {
		return nil
	}
	for _, text := range slices.Sorted(maps.Keys(r.notices)) {
		for _, n := range r.chosen {
			if r.notices[text].has[n.def.Name] {
				r.giveBack()
				clear(r.notices)
				r.queue.TakeNotice()
				return &fault.Error{Text: notApart(n.def.Name, text), Code: job.ExitInternal}
			}
		}
	}
	return nil
}

func notApart(where, why string) string {
	return fmt.Sprintf("%s: not kept apart from other jobs: %s", where, why)
}
