package reserve

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"remshell/job"
	"remshell/usererr"
	"remshell/wire"
)

// A claimConflict is a node that another job got first.
type claimConflict struct{ node, reason string }

// claimNodes hands every node of a plan its part and waits until all are ready. If one cannot,
// the others give up what they have claimed.
func (r *reservation) claimNodes(ctx context.Context, p job.Plan) error {
	r.setPlan(p)
	r.ranksPerApp = RanksPerApp(p, len(r.req.Apps))
	if r.spawnGroup != nil {
		r.baseline = r.spawnGroup.Baseline
	} else {
		r.baseline = newBaseline(totalSlots(r.req, r.snap.Nodes, p), r.planHosts)
	}
	byID := slices.SortedFunc(slices.Values(r.planHosts), func(x, y *host) int { return x.def.ID - y.def.ID })
	err := r.prepareGroups(ctx, byID[:1], byID[1:])
	if err != nil {
		r.cancelClaims()
	}
	return err
}

// setPlan makes a plan that which is to be carried out.
func (r *reservation) setPlan(p job.Plan) {
	r.plan, r.planHosts = p, nil
	for _, np := range p.Nodes {
		r.planHosts = append(r.planHosts, r.snapHosts[np.Node])
	}
}

// cancelClaims has the nodes of the plan forget their part.
func (r *reservation) cancelClaims() {
	for _, n := range r.planHosts {
		n.Send(&wire.CancelPrepare{Group: r.groupName()})
	}
	r.planHosts = nil
}

// prepareGroups tells groups of nodes their part, one group after the other. The error says
// which refuse, or that one is taken; then those behind it are not asked.
func (r *reservation) prepareGroups(ctx context.Context, groups ...[]*host) error {
	local := r.localAddress(slices.Concat(r.planHosts, r.ownHosts()))
	part := make(map[*host]int, len(r.planHosts)) // of the plan
	for i, n := range r.planHosts {
		part[n] = i
	}
	var refused []job.Failure
	refuse := func(n *host, e *usererr.Error) { refused = append(refused, job.Failure{Node: n.def.Name, Err: e}) }
	for _, nodes := range groups {
		var taken *claimConflict
		err := r.requestEach(ctx, r.replyTimeout(), nodes,
			func(n *host) wire.Message { return r.prepareMessage(part[n], local) },
			func(n *host, m wire.Message) bool {
				switch m := m.(type) {
				case *wire.Prepared:
					r.addNotice(n, m.Notice)
					r.rendezvous = cmp.Or(m.Rendezvous, r.rendezvous)
				case *wire.ClaimConflict:
					taken = &claimConflict{n.def.Name, m.Reason}
				case *wire.Refused:
					refuse(n, &usererr.Error{Text: m.Reason, Remedy: m.Hint, Code: m.Code})
				default:
					return false
				}
				return true
			})
		for _, n := range r.planHosts { // those who were asked before, too
			if n.lost != nil { // the next survey judges that
				taken = &claimConflict{n.def.Name, "lost contact before the start"}
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

// checkSeparation is the end of a job that wants nobody beside it, or whose administrator does,
// where that cannot be had (TRUST-13). Others start all the same, and say so.
func (r *reservation) checkSeparation() error {
	if !r.req.Exclusive && !r.req.Queue.Strict {
		return nil
	}
	for _, text := range slices.Sorted(maps.Keys(r.notices)) {
		for _, n := range r.planHosts {
			if r.notices[text].has[n.def.Name] {
				r.cancelClaims()
				clear(r.notices)
				r.queue.TakeNotice()
				return &usererr.Error{Text: separationError(n.def.Name, text), Code: job.ExitInternal}
			}
		}
	}
	return nil
}

func separationError(where, why string) string {
	return fmt.Sprintf("%s: not kept apart from other jobs: %s", where, why)
}
