package reserve

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/plan"
)

// A clockRange says how far a node's clock is ahead of the clock of mpiexec's machine. The exact difference is unknown,
// because the node's reply takes some time. It is between least and most. A negative value means that the node's clock
// is behind.
type clockRange struct{ least, most time.Duration }

// clockDifference returns the nodes whose clocks differ most, and the least possible difference between these
// clocks.
func clockDifference(nodes []*host) (difference time.Duration, ahead, behind *host) {
	for _, n := range nodes {
		if ahead == nil || n.clock.least > ahead.clock.least {
			ahead = n
		}
		if behind == nil || n.clock.most < behind.clock.most {
			behind = n
		}
	}
	if difference = ahead.clock.least - behind.clock.most; difference <= 0 {
		return 0, nil, nil
	}
	return difference, ahead, behind
}

// checkClocks compares the clocks of the nodes of a gang, a job that shares CPUs with others in time slices.
// It warns if the clocks differ by more than a tenth of a slice, and returns an error if they differ by more
// than half a slice. Nodes begin and end slices by their own clocks.
func (r *reservation) checkClocks(p job.Plan) error {
	if p.Gang == nil {
		return nil
	}
	var nodes []*host
	for _, np := range p.Nodes {
		nodes = append(nodes, r.snapHosts[np.Node])
	}
	by, ahead, behind := clockDifference(nodes)
	if by <= p.Gang.Slice/10 {
		return nil
	}
	text := fmt.Sprintf("--gang: the clock of %s is %v ahead of the clock of %s", ahead.def.Name, by.Round(100*time.Millisecond), behind.def.Name)
	if by <= p.Gang.Slice/2 {
		r.reportOnce("warning: " + text + "; in each turn, this time is lost")
		return nil
	}
	return &plan.Error{Code: plan.CodeGang, Permanent: true, Text: fmt.Sprintf("%s, which is more than half of a turn (%v)", text, p.Gang.Slice),
		Remedy: "set the clocks, and synchronize them by NTP: timedatectl set-ntp true"}
}
