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

// A claimConflict is returned when another job has claimed CPUs of a node after mpiexec asked which CPUs were
// free.
type claimConflict struct{ node, reason string }

// claimNodes sends Prepare to all nodes of a plan and waits until each has claimed the CPUs that the plan
// assigns to the job there. If a node cannot claim them, the other nodes release their claims.
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

// setPlan stores the plan whose nodes must be claimed.
func (r *reservation) setPlan(p job.Plan) {
	r.plan, r.planHosts = p, nil
	for _, np := range p.Nodes {
		r.planHosts = append(r.planHosts, r.snapHosts[np.Node])
	}
}

// cancelClaims tells the nodes of the plan to release the CPUs that they have claimed for the job.
func (r *reservation) cancelClaims() {
	for _, n := range r.planHosts {
		n.Send(&wire.CancelPrepare{Group: r.groupName()})
	}
	r.planHosts = nil
}

// prepareGroups sends Prepare to one group of nodes after the other. If a node of a group refuses or reports
// a conflict, the groups after it receive no Prepare. The error is a *claimConflict, or names all nodes that
// have refused.
func (r *reservation) prepareGroups(ctx context.Context, groups ...[]*host) error {
	local := r.localAddress(slices.Concat(r.planHosts, r.ownHosts()))
	part := make(map[*host]int, len(r.planHosts)) // of the plan
	for i, n := range r.planHosts {
		part[n] = i
	}
	var refused []job.Failure
	refuse := func(n *host, e *usererr.Error) { refused = append(refused, job.Failure{Node: n.def.Name, Err: e}) }
	for _, nodes := range groups {
		var conflict *claimConflict
		err := call(ctx, r, r.replyTimeout(), nodes,
			func(n *host) *wire.Prepare { return r.prepareMessage(part[n], local) },
			func(n *host, m wire.PrepareReply) {
				switch m := m.(type) {
				case *wire.Prepared:
					r.addNotice(n, m.Notice)
					r.rendezvous = cmp.Or(m.Rendezvous, r.rendezvous)
				case *wire.ClaimConflict:
					conflict = &claimConflict{n.def.Name, m.Reason}
				case *wire.Refused:
					refuse(n, &usererr.Error{Text: m.Reason, Remedy: m.Hint, Code: m.Code})
				}
			})
		for _, n := range r.planHosts { // also nodes of earlier groups
			if n.lost != nil { // the next survey handles the loss
				conflict = &claimConflict{n.def.Name, "mpiexec lost contact with the host before the ranks started"}
			}
		}
		switch {
		case err != nil:
			return err
		case conflict != nil && len(refused) == 0:
			return conflict
		}
	}
	if len(refused) == 0 {
		return nil
	}
	// Equal reasons are reported once; the exit code is that of the first node.
	slices.SortFunc(refused, func(x, y job.Failure) int { return strings.Compare(x.Node, y.Node) })
	return &HostsError{Failed: refused}
}

// checkSeparation returns an error if the job depends on claims, but the ledger (directory of claims) of one of its
// nodes is not reliable (rule TRUST-13). A job depends on claims if it is a gang, or if the user or an administrator
// requires exclusive nodes. Other jobs only get a warning.
func (r *reservation) checkSeparation() error {
	if !r.req.Exclusive && !r.req.Gang && !r.req.Queue.Strict {
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

func separationError(host, reason string) string {
	return fmt.Sprintf("%s: other jobs may use the same CPUs: %s", host, reason)
}
